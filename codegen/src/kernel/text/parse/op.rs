//! Reading the right-hand side of an instruction.

use fusewright_abi::DType;
use fusewright_graph::{Literal, NanRule, ReduceOp, Rounding, ScalarFn};

use super::{InstReader, Result, dtype, literal, word};
use crate::kernel::{InstOp, Order, Over, Shape, Tree, Val};

impl InstReader<'_, '_> {
    pub(super) fn op(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let name = self.cursor.ident("an instruction")?;
        if let Some(f) = ScalarFn::by_name(name.text) {
            return Ok((InstOp::Map(f), self.values()?));
        }
        match name.text {
            "literal" => self.literal(),
            "index" => Ok((InstOp::Index(self.index()?), Vec::new())),
            "iota" => Ok((InstOp::Iota(self.index()?), Vec::new())),
            "load" => self.load(),
            "store" => self.store(),
            "cast" => self.cast(),
            "bitcast" => {
                let args = vec![self.value()?];
                self.cursor.expect_word("to")?;
                Ok((InstOp::Bitcast(dtype(self.cursor)?), args))
            }
            "reduce" => self.reduce(),
            "arg_reduce" => {
                let op = word(self.cursor, &ReduceOp::ALL.map(|op| (op.name(), op)))?;
                Ok((InstOp::ArgReduce(op), vec![self.value()?]))
            }
            "top_k" => {
                let mut args = vec![self.value()?];
                if self.cursor.eat_word("by") {
                    args.push(self.value()?);
                }
                self.cursor.expect_word("k")?;
                let k = self.index()?;
                let over = if self.cursor.eat_word("over") { self.over()? } else { Over::Row };
                Ok((InstOp::TopK { k, over }, args))
            }
            "slice" => self.slice(),
            "cat" => Ok((InstOp::Cat, self.values()?)),
            "zip" => Ok((InstOp::Zip, self.values()?)),
            "pack" => {
                let args = vec![self.value()?];
                self.cursor.expect_word("ways")?;
                let ways = self.cursor.unsigned()?;
                self.cursor.expect_word("to")?;
                Ok((InstOp::Pack { ways, to: dtype(self.cursor)? }, args))
            }
            "broadcast" => {
                let args = vec![self.value()?];
                self.cursor.expect_word("to")?;
                let (shape, _) = self.shape(false)?;
                Ok((InstOp::Broadcast(shape), args))
            }
            "as_row" => Ok((InstOp::AsRow, vec![self.value()?])),
            "as_group" => {
                let args = vec![self.value()?];
                self.cursor.expect_word("lanes")?;
                let lanes = self.index()?;
                self.cursor.expect_word("size")?;
                Ok((InstOp::AsGroup { lanes, size: self.index()? }, args))
            }
            other => Err(self.cursor.error_at(&name, format!("no instruction is called `{other}`"))),
        }
    }

    fn literal(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let dtype = dtype(self.cursor)?;
        Ok((InstOp::Literal(literal(self.cursor, dtype)?), Vec::new()))
    }

    fn load(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let param = self.param()?;
        self.cursor.expect("[")?;
        let index = self.index()?;
        self.cursor.expect("]")?;
        self.cursor.expect(":")?;
        let at = self.cursor.peek();
        let (shape, of) = self.shape(true)?;
        let dtype = self.params[param.0 as usize].dtype;
        if of != Some(dtype) {
            return Err(self.cursor.error_at(&at, format!("the parameter is {dtype}")));
        }
        let (condition, otherwise) = self.condition(dtype)?;
        if condition.is_some() && otherwise.is_none() {
            return Err(self.cursor.expected("`else` and the value where the predicate is false"));
        }
        Ok((InstOp::Load { param, index, shape, otherwise }, condition.into_iter().collect()))
    }

    fn store(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let param = self.param()?;
        self.cursor.expect("[")?;
        let index = self.index()?;
        self.cursor.expect("]")?;
        self.cursor.expect(",")?;
        let value = self.value()?;
        let (condition, otherwise) = self.condition(self.params[param.0 as usize].dtype)?;
        let args = [value].into_iter().chain(condition).collect();
        Ok((InstOp::Store { param, index, otherwise }, args))
    }

    fn condition(&mut self, dtype: DType) -> Result<(Option<Val>, Option<Literal>)> {
        if !self.cursor.eat_word("if") {
            return Ok((None, None));
        }
        let predicate = self.value()?;
        let otherwise = if self.cursor.eat_word("else") { Some(literal(self.cursor, dtype)?) } else { None };
        Ok((Some(predicate), otherwise))
    }

    fn cast(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let args = vec![self.value()?];
        self.cursor.expect_word("to")?;
        let to = dtype(self.cursor)?;
        let round = word(self.cursor, &Rounding::ALL.map(|r| (r.name(), r)))?;
        Ok((InstOp::Cast { to, round, saturate: self.cursor.eat_word("sat") }, args))
    }

    fn reduce(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let op = word(self.cursor, &ReduceOp::ALL.map(|op| (op.name(), op)))?;
        let args = vec![self.value()?];
        self.cursor.expect_word("over")?;
        let over = self.over()?;
        self.cursor.expect_word("nan")?;
        let nan = word(self.cursor, &[NanRule::Propagate, NanRule::Ignore].map(|n| (n.name(), n)))?;
        self.cursor.expect_word("order")?;
        let order = if word(self.cursor, &[("relaxed", true), ("tree", false)])? {
            Order::Relaxed
        } else {
            Order::Tree(self.tree()?)
        };
        Ok((InstOp::Reduce { op, over, nan, order }, args))
    }

    fn over(&mut self) -> Result<Over> {
        let row = word(self.cursor, &[("row", true), ("group", false)])?;
        Ok(if row { Over::Row } else { Over::Group(self.index()?) })
    }

    fn tree(&mut self) -> Result<Tree> {
        self.cursor.expect("(")?;
        let first = self.cursor.unsigned()?;
        let tree = if self.cursor.eat(",") {
            let threads = self.cursor.unsigned()?;
            self.cursor.expect(",")?;
            Tree { vec: first, threads, ways: self.cursor.unsigned()? }
        } else {
            Tree::interleaved(first)
        };
        self.cursor.expect(")")?;
        Ok(tree)
    }

    fn slice(&mut self) -> Result<(InstOp, Vec<Val>)> {
        let args = vec![self.value()?];
        self.cursor.expect_word("start")?;
        let start = self.index()?;
        self.cursor.expect_word("len")?;
        let len = self.index()?;
        self.cursor.expect_word("step")?;
        Ok((InstOp::Slice { start, len, step: self.cursor.int()? }, args))
    }

    /// `scalar<T>`, `row<T, n>` or `group<T, n, g>`; without the dtype (and `scalar` alone) if not `typed`.
    fn shape(&mut self, typed: bool) -> Result<(Shape, Option<DType>)> {
        let kind = word(self.cursor, &[("scalar", 0), ("row", 1), ("group", 2)])?;
        if kind == 0 && !typed {
            return Ok((Shape::Scalar, None));
        }
        self.cursor.expect("<")?;
        let mut of = None;
        if typed {
            of = Some(dtype(self.cursor)?);
            if kind > 0 {
                self.cursor.expect(",")?;
            }
        }
        let shape = match kind {
            0 => Shape::Scalar,
            1 => Shape::Row(self.index()?),
            _ => {
                let lanes = self.index()?;
                self.cursor.expect(",")?;
                Shape::Group { lanes, size: self.index()? }
            }
        };
        self.cursor.expect(">")?;
        Ok((shape, of))
    }
}
