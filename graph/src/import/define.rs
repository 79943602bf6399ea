//! One call of a custom op as a graph of its own: what the op computes by its row in the tables, for whoever asks without a
//! file.

use std::collections::BTreeMap;

use super::call::{Call, Names, Refusal};
use super::schema::{Argument, NamedArgument, NodeJson};
use super::strided::Strided;
use super::vendor;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::{Graph, InputKind, Symbol, Value};
use crate::ty::TensorType;

/// An argument that is no tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Plain {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Word(&'static str),
}

/// A call of a custom op.
#[derive(Clone, Debug)]
pub struct CustomCall<'a> {
    /// The op, as its table has it: `npu.npu_add_rms_norm`.
    pub target: &'a str,
    /// Symbols of the types, with their ranges.
    pub symbols: &'a [Symbol],
    /// Tensors by their parameters; they become inputs of these names, in order.
    pub tensors: &'a [(&'a str, TensorType)],
    /// All other arguments; the rest have their defaults.
    pub plain: &'a [(&'a str, Plain)],
    /// Types of the results.
    pub results: &'a [TensorType],
}

impl CustomCall<'_> {
    /// The graph of the call: its inputs are the tensors, its outputs all results of the op in order.
    ///
    /// # Errors
    /// In words, an op without a row, or arguments that the row does not take.
    pub fn graph(&self) -> Result<Graph, String> {
        let row = vendor::find(self.target).ok_or_else(|| format!("no custom op `{}`", self.target))?;
        let b = Builder::new("call");
        for symbol in self.symbols {
            b.symbol(&symbol.name, symbol.min, symbol.max);
        }
        let mut values = BTreeMap::new();
        for (name, ty) in self.tensors {
            values.insert((*name).to_owned(), b.add_input(name, ty.clone(), InputKind::User));
        }
        let tensor = |(name, _): &(&str, TensorType)| ((*name).to_owned(), Argument::Tensor((*name).to_owned()));
        let plain = |(name, value): &(&str, Plain)| {
            let argument = match *value {
                Plain::Bool(is) => Argument::Bool(is),
                Plain::Int(n) => Argument::Int(n),
                Plain::Float(x) => Argument::Float(x),
                Plain::Word(word) => Argument::Str(word.to_owned()),
            };
            ((*name).to_owned(), argument)
        };
        let given = self.tensors.iter().map(tensor).chain(self.plain.iter().map(plain));
        let inputs = given.map(|(name, arg)| NamedArgument { name, arg }).collect();
        let node = NodeJson {
            target: self.target.to_owned(),
            inputs,
            outputs: Vec::new(),
            metadata: Default::default(),
            name: None,
        };
        let call = Call {
            b: &b,
            names: &values,
            node: &node,
            row,
            results: self.results,
            given: BTreeMap::new(),
            uncounted: 0,
        };
        let results = call.check_names().and_then(|()| (row.import)(&call)).map_err(|Refusal(why)| why)?;
        results.into_iter().for_each(|value| b.output(value));
        Ok(b.finish())
    }
}

/// The tensors of a call; it has nothing else that a name could stand for.
impl Names for BTreeMap<String, Value> {
    fn value(&self, name: &str) -> Option<Value> {
        self.get(name).copied()
    }

    fn size(&self, _: &str) -> Option<Dim> {
        None
    }

    fn ranks(&self, _: &str) -> Option<u32> {
        None
    }

    fn never_negative(&self, dim: &Dim) -> bool {
        dim.as_const().is_some_and(|extent| extent >= 0)
    }

    fn takes_for_granted(&self, _: &Dim) -> bool {
        false
    }

    fn is_complex(&self, _: &str) -> bool {
        false
    }

    fn is_on_cpu(&self, _: &str) -> bool {
        false
    }

    fn memory(&self, _: &str) -> Option<Strided> {
        None
    }

    fn same_extent(&self, a: &Dim, b: &Dim) -> bool {
        a == b
    }
}

#[cfg(test)]
mod tests {
    use fusewright_abi::DType;

    use super::*;

    #[test]
    fn a_call_is_what_its_op_means() {
        let symbols = [Symbol { name: "s".into(), min: 1, max: None }];
        let rows = TensorType::new(DType::F16, [Dim::symbol("s"), Dim::constant(64)]);
        let gamma = TensorType::new(DType::F16, [Dim::constant(64)]);
        let call = CustomCall {
            target: "npu.npu_rms_norm",
            symbols: &symbols,
            tensors: &[("self", rows.clone()), ("gamma", gamma)],
            plain: &[("epsilon", Plain::Float(1e-5))],
            results: &[],
        };
        let graph = call.graph().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(graph.outputs().len(), 2);
        assert_eq!(graph.ty(graph.outputs()[0].value), &rows);
        assert!(graph.to_string().contains("1e-5"), "{graph}");
        let missing = CustomCall { tensors: &[("self", rows)], ..call.clone() }.graph().expect_err("no weight");
        assert!(missing.contains("gamma"), "{missing}");
        let unknown = CustomCall { plain: &[("eps", Plain::Float(1e-5))], ..call }.graph().expect_err("another name");
        assert!(unknown.contains("eps"), "{unknown}");
    }
}
