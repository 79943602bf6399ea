//! Fused regions: which nodes share a kernel.
//!
//! A region grows by dataflow legality, never by a list of patterns: [`Space`] says whether a body is a row program, and
//! [`partition`] merges neighbours as long as it is. Regions are outlined, not replaced: the graph stays as it is, and a
//! region holds a copy of its part of it. Layout ops, constants and one-element functions of inputs are free: every
//! region that reads them has its own. What is in no region has a [`Refusal`].

mod chained;
mod chosen;
mod content;
mod copies;
mod cost;
mod form;
mod free;
mod grow;
mod hoist;
mod judge;
mod lanes;
mod lone;
mod moved;
mod order;
mod outline;
mod overwrite;
mod packed;
mod parted;
mod recut;
mod refusal;
mod repeated;
mod reread;
mod space;
mod spans;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod verdicts;
mod windows;

use fusewright_graph::{Graph, NodeId, Op, Prim, TypeError, Value};

pub(crate) use content::{Content, Contents};
pub use cost::Keeps;
pub use form::{Piece, RowForm};
pub use grow::{is_constant, is_layout, partition};
pub use lanes::{Lanes, Spread, spread};
pub use lone::needs_no_kernel;
pub use moved::Costs;
pub use refusal::Refusal;
pub use space::{Nesting, Space};
pub use stored::{Scattered, Stored};

use crate::passes;

/// What a kernel may hold. Limits are data: this crate knows no device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most nodes of a region; of one node each if nothing is to fuse.
    pub nodes: usize,
    /// Most inputs and outputs of a region.
    pub operands: usize,
    /// Most of those of a region that merges readers of a value, which saves one reading of it and no more: what readers of
    /// all layers have in common, such as positions, would make them one kernel, whose results wait for their layers.
    pub read: usize,
    /// Most times that a node is computed: once for each part of concatenations that it is in. Reading is not computing.
    pub copies: usize,
    /// Kernels keep rows between their loops within these limits.
    pub keeps: Keeps,
    /// An element of a region is computed at most so often on average. The estimate counts packed codes and groups of up to 64
    /// lanes as if each lane computed them anew, although kernels do not: the limit leaves room for that. Sums over two axes in
    /// turn multiply and soon exceed it.
    pub again: u32,
    /// Rows may reduce again what other rows reduce, until a region computes its elements more than so often on average. Sums that
    /// 32 rows repeated took 30 times as long as stored ones.
    pub reduced: u32,
    /// The target's kernels take so long. Two regions are one kernel only where storing values between them takes longer than
    /// what the kernel computes again, as layout was moved in front of functions. `None` if computing costs nothing.
    pub costs: Option<Costs>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 256,
            operands: 64,
            read: 24,
            copies: 16,
            keeps: Keeps::STACK,
            again: 96,
            reduced: 4,
            costs: None,
        }
    }
}

/// The kinds of fusion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Rows that are independent of each other.
    Row,
    /// One op that shares no kernel with rows; a reduction of a whole tensor takes the functions of its result along.
    Op,
}

impl Kind {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Row => "row",
            Kind::Op => "op",
        }
    }
}

/// A neighbour that did not join a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The neighbour.
    pub node: NodeId,
    /// Why it stayed out.
    pub refusal: Refusal,
}

/// Nodes that share a kernel.
#[derive(Clone, Debug)]
pub struct FusedRegion {
    /// Public name: the most specific pattern it computes, or its kind.
    pub name: String,
    /// Kind of fusion.
    pub kind: Kind,
    /// The nodes of the graph that it computes, in order; free ones may be in several regions.
    pub nodes: Vec<NodeId>,
    /// The values of the graph that it reads, in the order of the body's inputs.
    pub inputs: Vec<Value>,
    /// The values of the graph that it computes for others, in the order of the body's outputs.
    pub outputs: Vec<Value>,
    /// The region as a graph of its own, with composites as they were.
    pub body: Graph,
    /// Whether outputs run over inner rows of their own: heads of the query and of the key, say.
    pub segments: bool,
    /// Neighbours that did not join, and why.
    pub ends: Vec<End>,
}

impl FusedRegion {
    /// The body in primitives, equal nodes merged, as the row program that it is.
    ///
    /// # Errors
    /// None for a body of a verified graph.
    pub fn expand_body(&self) -> Result<Graph, TypeError> {
        let body = expand(&self.body)?;
        Ok(match self.kind {
            Kind::Row => {
                row_program(&body, self.segments, Nesting::Loose).ok().and_then(|program| program.body).unwrap_or(body)
            }
            Kind::Op => body,
        })
    }

    /// Rows and lanes of [`FusedRegion::expand_body`].
    ///
    /// # Errors
    /// None for a region that [`partition`] made.
    pub fn space(&self) -> Result<Space, Refusal> {
        let body = self.expand_body().map_err(|_| Refusal::Reshape)?;
        // Joined parts are outputs of their own.
        Space::find(&body, self.segments).or_else(|refusal| Space::find(&body, true).map_err(|_| refusal))
    }
}

/// A body in primitives, equal and unused nodes gone.
pub(crate) fn expand(body: &Graph) -> Result<Graph, TypeError> {
    let expanded = body.expanded()?;
    let merged = passes::cse(&expanded).map_or(expanded, |(merged, _)| merged);
    Ok(passes::dce(&merged).0)
}

/// A body of primitives with layout in front of elementwise functions, wherever it stood.
pub(crate) fn with_layout_first(body: &Graph) -> Graph {
    hoist::hoisted(body).unwrap_or_else(|| body.clone())
}

/// Whether a body of primitives is a row program: as it is (`None`), or with layout hoisted above functions, or with
/// selections for its reads of short tables, or with stacks of few chosen rows that are reduced. Lanes nest
/// strictly where they can: heads are rows then.
pub(crate) fn row_program(body: &Graph, segments: bool, nesting: Nesting) -> Result<Program, Refusal> {
    let found = with_layout_in_front(body, segments, nesting);
    let lanes = |program: &Program| !program.space.lanes.rows().is_empty();
    let chosen_along_lanes = match &found {
        Err(refusal) => matches!(refusal, Refusal::GatherLanes | Refusal::GatherComputed),
        Ok(program) => !lanes(program) && body.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Gather { .. }))),
    };
    if !chosen_along_lanes {
        return found;
    }
    // Whole rows are cheaper than rows of one element.
    let other = [table::selected, chosen::stacked].into_iter().find_map(|other| {
        let other = other(body)?;
        let Program { body, space } = with_layout_in_front(&other, segments, nesting).ok()?;
        Some(Program { body: body.or(Some(other)), space }).filter(|program| found.is_err() || lanes(program))
    });
    other.map_or(found, Ok)
}

/// A row program.
pub(crate) struct Program {
    /// The program computes this; `None` stands for the body as it is.
    pub body: Option<Graph>,
    /// Its rows and lanes.
    pub space: Space,
}

fn with_layout_in_front(body: &Graph, segments: bool, nesting: Nesting) -> Result<Program, Refusal> {
    let mut hoisted = None;
    let mut program = |nesting| -> Result<Program, Refusal> {
        let refusal = match Space::nested(body, segments, nesting) {
            Ok(space) => return Ok(Program { body: None, space }),
            Err(refusal) => refusal,
        };
        let other = hoisted.get_or_insert_with(|| hoist::hoisted(body)).clone().ok_or(refusal)?;
        let space = Space::nested(&other, segments, nesting).map_err(|_| refusal)?;
        Ok(Program { body: Some(other), space })
    };
    let found = match program(Nesting::Strict) {
        Err(refusal) if nesting == Nesting::Loose && refusal.is_of_lanes() => program(Nesting::Loose),
        found => found,
    };
    match found {
        Err(refusal) if nesting == Nesting::Loose && refusal.is_of_lanes() => {
            in_joined_parts(body, segments).ok_or(refusal)
        }
        found => found,
    }
}

/// A body whose functions of joined lanes are computed part by part, if the parts are rows of one program.
fn in_joined_parts(body: &Graph, segments: bool) -> Option<Program> {
    let parted = parted::parted(body)?;
    let space = Space::find(&parted, true).ok()?;
    (segments || space.is_even(&parted)).then_some(Program { body: Some(parted), space })
}

/// A node that is in no region, or that is computed outside of the regions that have it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfused {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub refusal: Refusal,
}

/// One step of running a partitioned graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The region of that index.
    Region(usize),
    /// The op of that index in [`Partition::lone`], which has a kernel of its own.
    Lone(usize),
    /// A node that needs no kernel: a library's, a view, a constant.
    Node(NodeId),
}

/// A graph divided into regions and single nodes.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// The regions, in the order of their first nodes.
    pub regions: Vec<FusedRegion>,
    /// Single ops that are in no region and may have a kernel each, in order, as regions of one computing node. What
    /// kept each from sharing a kernel is in [`Partition::unfused`].
    pub lone: Vec<FusedRegion>,
    /// Every node that is in no region, and every free one that is a step of its own as well, in order.
    pub unfused: Vec<Unfused>,
    /// What to run, each step after what it reads.
    pub steps: Vec<Step>,
}

impl Partition {
    /// Everything that has a kernel where the target takes it: the regions, then the lone ops.
    pub fn kernels(&self) -> impl Iterator<Item = &FusedRegion> {
        self.regions.iter().chain(&self.lone)
    }

    /// What a step launches a kernel of, if it launches one.
    pub fn kernel(&self, step: Step) -> Option<&FusedRegion> {
        self.kernels().nth(self.kernel_index(step)?)
    }

    /// The place in [`Partition::kernels`] of what a step launches a kernel of.
    pub fn kernel_index(&self, step: Step) -> Option<usize> {
        match step {
            Step::Region(i) => Some(i),
            Step::Lone(i) => Some(self.regions.len() + i),
            Step::Node(_) => None,
        }
    }
}
