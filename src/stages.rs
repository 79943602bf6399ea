//! Every form of a kernel on its way to the target, for whoever wants to read them.

use fusewright_graph::Graph;

use crate::compiler::{CompileError, Compiler};

/// One form of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelStage {
    /// `body`, `lowered` and `expanded`, then what the backend calls its forms: `clif`, `ll`, `ptx`, `bin`, …
    pub name: &'static str,
    /// The form itself; UTF-8 text unless it is machine code.
    pub bytes: Vec<u8>,
}

impl Compiler {
    /// The forms of a body's kernel, in the order of compilation: the body in primitives, Kernel IR as lowered and as expanded
    /// for the target, and the backend's.
    ///
    /// # Errors
    /// A body without a row program, or one that the backend does not take.
    pub fn stages(&self, name: &str, body: &Graph) -> Result<Vec<KernelStage>, CompileError> {
        let stage = |name, bytes| KernelStage { name, bytes };
        let (lowered, expanded) = self.kernel(name, body)?;
        let texts = [("body", body.to_string()), ("lowered", lowered.to_string()), ("expanded", expanded.to_string())];
        let emitted = self.toolchain().stages(&expanded, self.target())?;
        let texts = texts.into_iter().map(|(name, text)| stage(name, text.into_bytes()));
        Ok(texts.chain(emitted.into_iter().map(|emitted| stage(emitted.extension, emitted.bytes))).collect())
    }
}
