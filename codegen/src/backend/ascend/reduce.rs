//! Reductions of rows and groups in the order of a tree, on whole tiles.

use fusewright_abi::DType;
use fusewright_graph::{NanRule, ReduceOp, ScalarFn};

use super::EmitError;
use super::memory::{BLOCK, Tensor};
use super::segment::{Made, Writer};
use super::tile::{COPIES, Count};
use crate::kernel::{Inst, InstOp, Level, Order, Over, Tree, Val};

/// Floats that the header's `TreeReduce` works in.
const TREE_WORK: u64 = 2176;

/// What is reduced: rows of `lanes`, as many as `rows`.
struct Rows {
    rows: Count,
    most: u64,
    lanes: u64,
}

impl Writer<'_> {
    /// A reduction of a row to a scalar, or of its groups.
    pub fn reduce(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Reduce { op, over, nan, order } = &inst.op else { return Ok(()) };
        let x = inst.args[0];
        let dtype = self.dtype(x);
        if !matches!(dtype, DType::F32 | DType::I32) {
            return Err(EmitError::unsupported(format!("a reduction of {dtype}")));
        }
        if *op == ReduceOp::Mul {
            return Err(EmitError::unsupported("a product of a row"));
        }
        let (lanes, times) = (self.lanes(x)?, self.tile.times(self.level(x)));
        let groups = match over {
            Over::Row => 1,
            Over::Group(size) => {
                let size = size.as_const().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0 && lanes % n == 0);
                lanes / size.ok_or_else(|| EmitError::unsupported("groups of which the last is shorter"))?
            }
        };
        let most = self.tile.most(self.level(x)) * groups;
        let rows = Rows { rows: times.of(groups), most, lanes: lanes / groups };
        if let Some(to) = self.folded.get(&result).cloned() {
            let tree = match order {
                Order::Tree(tree) => *tree,
                Order::Relaxed => Tree::interleaved(64),
            };
            self.bind(result, to);
            return self.by_tree(*op, *nan, tree, (x, result), &rows);
        }
        if most > 1 && !(rows.lanes * 4).is_multiple_of(BLOCK) {
            return if groups == 1 {
                Err(EmitError::Single)
            } else {
                Err(EmitError::unsupported(format!("groups of {} lanes: blocks are of 8", rows.lanes)))
            };
        }
        match order {
            Order::Relaxed if dtype == DType::F32 && most == 1 && self.relaxes(*op, *nan) => {
                self.reduce_relaxed(*op, result, x, &rows)
            }
            Order::Relaxed if most > 1 && groups == 1 => Err(EmitError::Single),
            Order::Relaxed => self.by_tree(*op, *nan, Tree::interleaved(64), (x, result), &rows),
            Order::Tree(tree) => self.by_tree(*op, *nan, *tree, (x, result), &rows),
        }
    }

    /// Whether the vendor's own reduction says the same of NaN.
    fn relaxes(&self, op: ReduceOp, _nan: NanRule) -> bool {
        op == ReduceOp::Add
    }

    fn by_tree(&mut self, op: ReduceOp, nan: NanRule, tree: Tree, of: (Val, Val), rows: &Rows) -> Made<()> {
        let (x, result) = of;
        let Tree { vec: 1, threads: 8 | 16 | 32 | 64, ways: 1 } = tree else {
            let what = format!("a reduction in order {}: the vector unit adds tree(8) to tree(64)", Order::Tree(tree));
            return Err(EmitError::unsupported(what));
        };
        let from = self.tensor(x)?;
        let float = self.dtype(x) == DType::F32;
        let (name, wish) = match op {
            ReduceOp::Max if float => ("Largest", "largest"),
            ReduceOp::Max => ("LargestInteger", "largest"),
            ReduceOp::Min if float => ("Smallest", "smallest"),
            ReduceOp::Min => ("SmallestInteger", "smallest"),
            _ => ("Sum", "sum"),
        };
        if op == ReduceOp::Add || !float {
            let to = self.destination(result, wish, &[])?;
            let kind = if float { "float" } else { "int32_t" };
            self.tree(name, kind, tree, (&to, &from), rows);
            return Ok(());
        }
        // Magnitudes are ordered as their bits are, with NaN above infinity.
        let magnitude = op == ReduceOp::Max && self.map_args(x, ScalarFn::Abs).is_some();
        if magnitude && nan == NanRule::Propagate {
            let to = self.destination(result, wish, &[])?;
            self.tree(name, "int32_t", tree, (&to, &from), rows);
            return Ok(());
        }
        let neutral = if op == ReduceOp::Max { f32::NEG_INFINITY } else { f32::INFINITY };
        let (count, most) = (self.count(x)?.to_string(), self.most(x)?);
        let neutral = self.block(neutral.to_bits());
        let numbers = self.numbers(&from, most, &count);
        let clean = self.scratch("numbers", "float", most, 4);
        self.select_into(&clean, &numbers, (&from, ", false"), (&neutral, ", true"), &count);
        let to = self.destination(result, wish, &[])?;
        let kind = if magnitude { "int32_t" } else { "float" };
        self.tree(name, kind, tree, (&to, &clean), rows);
        if nan == NanRule::Propagate {
            let (zero, not) = (self.block(0), self.block(f32::NAN.to_bits()));
            self.select_into(&clean, &numbers, (&zero, ", true"), (&not, ", true"), &count);
            if self.folded.contains_key(&result) {
                let found = self.kept_tensor("nanOrZero", "float", COPIES, 4);
                let mask = self.kept_tensor("mask", "uint8_t", Self::mask_bytes(COPIES), 1);
                self.tree("Largest", "int32_t", tree, (&found, &clean), rows);
                let [to, found, mask] = [&to, &found, &mask].map(|t| t.text());
                self.out.finish.push(format!("fusewright::KeepNan({to}, {found}, {mask});"));
                return Ok(());
            }
            let found = self.scratch("nanOrZero", "float", rows.most * COPIES, 4);
            self.tree("Largest", "int32_t", tree, (&found, &clean), rows);
            let copies = rows.rows.of(COPIES).to_string();
            let mask = self.numbers(&found, rows.most * COPIES, &copies);
            let kept = to.clone();
            self.select_into(&to, &mask, (&kept, ", false"), (&found, ", false"), &copies);
        }
        Ok(())
    }

    fn tree(&mut self, name: &str, kind: &str, tree: Tree, of: (&Tensor, &Tensor), rows: &Rows) {
        let (to, from) = of;
        if !self.folded.is_empty() {
            return self.fold(name, kind, tree, of);
        }
        let work = self.scratch("tree", "float", TREE_WORK, 4);
        let operands = [to, from, &work].map(|t| t.text()).join(", ");
        let (count, lanes, width) = (&rows.rows, rows.lanes, tree.threads);
        let op = format!("fusewright::{name}, {kind}, {width}");
        let line = format!("fusewright::TreeReduce<{op}>({operands}, {count}, {lanes});");
        self.steps().settled(line, &[], &[&work]);
    }

    /// The tiles of a row one after the other into accumulators, which the end of the row combines.
    fn fold(&mut self, name: &str, kind: &str, tree: Tree, of: (&Tensor, &Tensor)) {
        let (to, from) = of;
        let width = tree.threads;
        let op = format!("fusewright::{name}, {kind}, {width}");
        let into = self.kept_tensor("accumulators", "float", u64::from(width), 4);
        let work = self.kept_tensor("tree", "float", TREE_WORK, 4);
        let words = format!("{}.ReinterpretCast<uint32_t>()", into.text());
        self.fixed.vector(format!("Duplicate({words}, fusewright::{name}::NEUTRAL, {width});"), &[], &into);
        let cast =
            |t: &Tensor| if kind == "float" { t.text() } else { format!("{}.ReinterpretCast<{kind}>()", t.text()) };
        let count = self.tile.times(Level::Inner);
        let line = format!("fusewright::FoldRows<{op}>({}, {}, 1, {count});", cast(&into), cast(from));
        self.steps().settled(line, &[from, &into], &[&into]);
        let finish = format!("fusewright::CombineRows<{op}>({}, {}, {}, 1);", cast(to), cast(&into), cast(&work));
        self.out.finish.push(finish);
    }

    fn reduce_relaxed(&mut self, op: ReduceOp, result: Val, x: Val, rows: &Rows) -> Made<()> {
        let from = self.tensor(x)?;
        let scratch = self.scratch("partial", "float", rows.lanes, 4);
        let to = self.destination(result, "sum", &[])?;
        let name = if op == ReduceOp::Add { "ReduceSum" } else { "ReduceMax" };
        let lanes = rows.lanes;
        self.steps()
            .plain("// The vendor's order: results may differ from other targets in the last place.".to_owned());
        let line = format!("{name}({}, {}, {}, {lanes});", to.text(), from.text(), scratch.text());
        self.steps().vector_to(line, &[&from], &[&to, &scratch]);
        self.steps().settled(format!("fusewright::CopyFirst({});", to.text()), &[&to], &[&to]);
        Ok(())
    }
}
