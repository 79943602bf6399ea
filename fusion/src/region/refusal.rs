//! Why a node is in no region, or a region ends: a closed list.

use std::fmt;

/// Why nodes do not share a kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// A matrix product: no generated kernel computes it.
    MatMul,
    /// Attention: no generated kernel computes it.
    Attention,
    /// A collective: it waits for other ranks.
    Collective,
    /// An op of the host framework that is not taken apart.
    Opaque,
    /// Writes at places that an index tensor chooses, into what is computed or read beside, or is laid out otherwise.
    Scatter,
    /// Combines at places that an index tensor chooses: several of its rows may be for one.
    ScatterReduce,
    /// Selects many of the largest elements of a part of a row, or a number of them that is not known.
    TopK,
    /// Only moves or repeats elements; free as a view, or left to its consumer.
    LayoutOnly,
    /// Only copies elements to other places, beside nothing that is computed: a kernel of its own.
    CopyOnly,
    /// A constant; every consumer has its own.
    Constant,
    /// A function of inputs of one element; every consumer has its own.
    OneElement,
    /// A constant or a function of one element that is stored, whatever else has its own: the graph returns it, or a
    /// reader takes it from memory.
    InMemory,
    /// Nothing reads its results.
    Dead,
    /// Reduces over axes that are neither the innermost nor the outermost lanes of its operand.
    ReductionAxis,
    /// Reduces over the rows of the tensor, so that no row is independent of another.
    WholeTensor,
    /// A reshape or broadcast whose extents do not factor into common axes.
    Reshape,
    /// A computed value is read with its lanes in another order, or among lanes that it is repeated over.
    LaneOrder,
    /// A slice or concatenation of computed values along some of their lanes only.
    LaneCut,
    /// One axis occurs twice in a value.
    Diagonal,
    /// The outputs have no row in common.
    NoCommonRows,
    /// The outputs run over different inner rows: a table computed once per outer row, say.
    InnerRows,
    /// Gathers from a value computed in the region.
    GatherComputed,
    /// Gathers or scatters along lanes: the innermost axis, or one that is reduced.
    GatherLanes,
    /// A path leaves the region and comes back.
    NotConvex,
    /// More nodes, copies of nodes or operands than a kernel may have.
    TooLarge,
    /// One kernel would compute values so often that storing them in between costs less.
    TooCostly,
    /// Regions of several ops are not wanted.
    Off,
    /// No op of either region reads a result of the other.
    Independent,
}

impl Refusal {
    /// Every reason, in declaration order.
    pub const ALL: [Refusal; 28] = [
        Refusal::MatMul,
        Refusal::Attention,
        Refusal::Collective,
        Refusal::Opaque,
        Refusal::Scatter,
        Refusal::ScatterReduce,
        Refusal::TopK,
        Refusal::LayoutOnly,
        Refusal::CopyOnly,
        Refusal::Constant,
        Refusal::OneElement,
        Refusal::InMemory,
        Refusal::Dead,
        Refusal::ReductionAxis,
        Refusal::WholeTensor,
        Refusal::Reshape,
        Refusal::LaneOrder,
        Refusal::LaneCut,
        Refusal::Diagonal,
        Refusal::NoCommonRows,
        Refusal::InnerRows,
        Refusal::GatherComputed,
        Refusal::GatherLanes,
        Refusal::NotConvex,
        Refusal::TooLarge,
        Refusal::TooCostly,
        Refusal::Off,
        Refusal::Independent,
    ];

    /// Whether it says that lanes do not lie to each other as they must.
    pub const fn is_of_lanes(self) -> bool {
        matches!(self, Refusal::LaneOrder | Refusal::LaneCut | Refusal::TopK | Refusal::ReductionAxis)
    }

    /// Short name, for reports and switches.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::MatMul => "matmul",
            Refusal::Attention => "attention",
            Refusal::Collective => "collective",
            Refusal::Opaque => "opaque",
            Refusal::Scatter => "scatter",
            Refusal::ScatterReduce => "scatter_reduce",
            Refusal::TopK => "top_k",
            Refusal::LayoutOnly => "layout_only",
            Refusal::CopyOnly => "copy_only",
            Refusal::Constant => "constant",
            Refusal::OneElement => "one_element",
            Refusal::InMemory => "in_memory",
            Refusal::Dead => "dead",
            Refusal::ReductionAxis => "reduction_axis",
            Refusal::WholeTensor => "whole_tensor",
            Refusal::Reshape => "reshape",
            Refusal::LaneOrder => "lane_order",
            Refusal::LaneCut => "lane_cut",
            Refusal::Diagonal => "diagonal",
            Refusal::NoCommonRows => "no_common_rows",
            Refusal::InnerRows => "inner_rows",
            Refusal::GatherComputed => "gather_computed",
            Refusal::GatherLanes => "gather_lanes",
            Refusal::NotConvex => "not_convex",
            Refusal::TooLarge => "too_large",
            Refusal::TooCostly => "too_costly",
            Refusal::Off => "off",
            Refusal::Independent => "independent",
        }
    }

    /// The reason in words.
    pub const fn message(self) -> &'static str {
        match self {
            Refusal::MatMul => "a matrix product is a step of its own",
            Refusal::Attention => "attention is a step of its own",
            Refusal::Collective => "a collective waits for other ranks",
            Refusal::Opaque => "an op of the host framework is not taken apart",
            Refusal::Scatter => "it writes at chosen places into what is computed, read beside or laid out otherwise",
            Refusal::ScatterReduce => "it combines at chosen places, of which several may be one",
            Refusal::TopK => {
                "it selects many of the largest elements of a part of a row, or a number of them that is not known"
            }
            Refusal::LayoutOnly => "layout only: free as a view, or left to its consumer",
            Refusal::CopyOnly => "a copy of elements is a step of its own: nothing is computed beside it",
            Refusal::Constant => "a constant, of which every consumer has its own",
            Refusal::OneElement => "a function of inputs of one element, of which every consumer has its own",
            Refusal::InMemory => "it is stored: the graph returns it, or a reader takes it from memory",
            Refusal::Dead => "nothing reads its results",
            Refusal::ReductionAxis => "it reduces over axes that are not the innermost of its operand",
            Refusal::WholeTensor => "it reduces over the rows, so that no row is independent of another",
            Refusal::Reshape => "the extents of a reshape or broadcast do not factor into common axes",
            Refusal::LaneOrder => {
                "a computed value is read with its lanes in another order, or repeated inside of them"
            }
            Refusal::LaneCut => "it cuts or joins computed values along some of their lanes only",
            Refusal::Diagonal => "one axis occurs twice in a value",
            Refusal::NoCommonRows => "the outputs have no row in common",
            Refusal::InnerRows => "the outputs run over different inner rows",
            Refusal::GatherComputed => "it gathers from a value computed in the region",
            Refusal::GatherLanes => "indices choose along an axis that is reduced, cut or joined beside it",
            Refusal::NotConvex => "a path leaves the region and comes back",
            Refusal::TooLarge => "more nodes, copies of nodes or operands than a kernel may have",
            Refusal::TooCostly => {
                "one kernel would compute values again and again, which costs more than storing them in between"
            }
            Refusal::Off => "fusion is off",
            Refusal::Independent => "neither region reads what the other computes",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}
