//! What calls need, made before they come: the best code of kernels, and plans of sizes.
//!
//! Kernels take whatever their graph has as symbols, so that a call of sizes that were never seen compiles nothing: it makes
//! a plan, and its kernels get better behind it. A caller that knows its sizes has both done beforehand.

use std::collections::BTreeSet;

use fusewright_graph::Dim;

use super::{PlanKey, Program, bind};
use crate::Error;
use crate::inputs::{DEFAULT_ROWS, Sizes, symbols};

impl Program {
    /// Makes everything that calls of these sizes need: the best code of every kernel, and for each of the sizes the plans of
    /// calls that overwrite no input and of those that overwrite all they may, with their workspaces. Then no such call
    /// compiles or plans. As many plans are kept as a program keeps of calls, the last ones.
    ///
    /// # Errors
    /// Sizes that leave a symbol open, name one that the graph has not, or that the graph does not take; no memory.
    pub fn prepare(&self, sizes: &[Sizes]) -> Result<(), Error> {
        self.promote();
        for sizes in sizes {
            let open = self.graph.symbols().iter().find(|s| sizes.rows.is_none() && !sizes.dims.contains_key(&s.name));
            if let Some(symbol) = open {
                return Err(Error::Call(format!("the sizes do not say what symbol `{}` is", symbol.name)));
            }
            for key in self.keys(sizes)? {
                let planned = self.plan(key.clone())?;
                if let Some(device) = &self.device {
                    device.prepare(self, &planned.plan, &key)?;
                    continue;
                }
                let workspace = planned.workspace()?;
                planned.give_back(workspace);
            }
        }
        Ok(())
    }

    /// The keys of the plans of calls of these sizes.
    fn keys(&self, sizes: &Sizes) -> Result<BTreeSet<PlanKey>, Error> {
        let values = symbols(&self.graph, sizes, DEFAULT_ROWS)?;
        let users = || self.graph.inputs().iter().filter(|input| input.kind.is_given());
        let extent = |dim: &Dim| {
            let value = dim.eval(&|s| values.get(s).copied()).map_err(|e| Error::Call(e.to_string()))?;
            usize::try_from(value).map_err(|_| Error::Call(format!("extent {dim} is {value}")))
        };
        let shape = |value| self.graph.ty(value).shape.iter().map(extent).collect::<Result<Vec<usize>, Error>>();
        let shapes = users().map(|input| shape(input.value)).collect::<Result<Vec<_>, Error>>()?;
        let dtypes = users().map(|input| self.graph.ty(input.value).dtype);
        let given: Vec<_> = dtypes.zip(&shapes).map(|(dtype, shape)| (dtype, shape.as_slice())).collect();
        // As calls bind them, so that calls find the plans.
        let binding = bind(&self.graph, &given)?;
        let updated = |name: &str| self.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(name));
        let numbers = users().enumerate().filter(|(_, input)| updated(&input.name)).map(|(number, _)| number);
        let donated: BTreeSet<usize> = numbers.collect();
        let with_state = donated.iter().copied().chain(self.state_numbers()).collect();
        Ok([BTreeSet::new(), donated, with_state].map(|donated| (binding.clone(), donated)).into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, PoisonError};

    use fusewright_abi::{DType, Target};

    use super::*;
    use crate::diff::options;
    use crate::{Argument, HostTensor, compile};

    fn program() -> Program {
        let text = "graph @g(s: 1..100, h: 1..; %x: f32[s, h], %r: f32[s, h]) {\n  %y = exp %x\n  %n = add %r, %y\n  \
                    return %y, %n updates %r\n}\n";
        let graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}")).program
    }

    fn sizes(dims: &[(&str, i64)]) -> Sizes {
        Sizes { rows: None, dims: dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    #[test]
    fn calls_of_prepared_sizes_plan_nothing() {
        let program = program();
        program.prepare(&[sizes(&[("s", 3), ("h", 5)]), Sizes { rows: Some(7), dims: BTreeMap::new() }]).expect("fits");
        let planned = || program.planned.lock().unwrap_or_else(PoisonError::into_inner).len();
        let (before, compiled) = (planned(), program.code().compiled);
        assert!(compiled > 0, "the kernels were");
        for (shape, more) in [([3, 5], 0), ([7, 7], 0), ([3, 6], 2)] {
            let x = HostTensor::zeros(DType::F32, &shape);
            let mut r = x.clone();
            program.run(&[&x, &r], 1).unwrap_or_else(|e| panic!("{e}"));
            let mut overwriting = [Argument::Read(&x), Argument::InOut(&mut r)];
            program.run_in_place(&mut overwriting, 1).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(planned(), before + more, "{shape:?}");
        }
        fusewright_runtime::settle();
        assert_eq!(program.code().compiled, compiled, "nothing was compiled since, nor behind the calls");
        let key = program.keys(&sizes(&[("s", 3), ("h", 5)])).expect("fits").pop_first().expect("three");
        let kept = program.plan(key).expect("planned");
        assert_eq!(Arc::strong_count(&kept), 2, "it is the program's own");
        assert!(!kept.workspaces.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let program = program();
        for (dims, said) in [
            (sizes(&[("s", 3)]), "do not say what symbol `h` is"),
            (sizes(&[("s", 3), ("h", 4), ("t", 5)]), "no symbol `t`"),
            (sizes(&[("s", 101), ("h", 4)]), "symbol `s` is 101, outside"),
        ] {
            let error = program.prepare(&[dims]).expect_err("does not fit").to_string();
            assert!(error.contains(said), "no `{said}` in: {error}");
        }
    }
}
