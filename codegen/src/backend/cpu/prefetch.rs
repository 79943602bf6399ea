//! Prefetches, which Cranelift has no instruction for: a function of two instructions stands behind the kernel's code,
//! and is called without a register lost.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, ExtFuncData, ExternalName, InstBuilder, Signature, UserExternalName, Value};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget};

use super::code::Code;

/// What the function is called by.
const NAME: UserExternalName = UserExternalName { namespace: 1, index: 0 };
/// `prefetcht0 [rdi]`, `ret`.
const X64: [u8; 4] = [0x0f, 0x18, 0x0f, 0xc3];

/// Whether an instruction set is one that the function was written for.
pub(super) fn exists(isa: &dyn TargetIsa) -> bool {
    isa.name() == "x64" && isa.default_call_conv() == CallConv::SystemV
}

impl Code<'_> {
    /// Asks for the line of memory at an address, which need not be one.
    pub fn prefetch(&mut self, address: Value) {
        // No other function is called.
        let callee = self.b.func.dfg.ext_funcs.keys().next();
        let callee = callee.unwrap_or_else(|| {
            let mut signature = Signature::new(CallConv::PreserveAll);
            signature.params = vec![AbiParam::new(I64)];
            let signature = self.b.import_signature(signature);
            let name = ExternalName::user(self.b.func.declare_imported_user_function(NAME));
            self.b.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
        });
        self.b.ins().call(callee, &[address]);
    }
}

/// The bytes of compiled code, with the function behind it if it is called.
pub(super) fn linked(code: &CompiledCode) -> Result<Vec<u8>, String> {
    let mut bytes = code.code_buffer().to_vec();
    let stub = bytes.len();
    for reloc in code.buffer.relocs() {
        let at = reloc.offset as usize;
        // A call of the library would have a name of its own.
        let is_own = matches!(reloc.target, FinalizedRelocTarget::ExternalName(ExternalName::User(_)));
        if !is_own || reloc.kind != Reloc::X86CallPCRel4 {
            return Err(format!("a relocation {reloc:?}"));
        }
        let distance = i32::try_from(stub as i64 + reloc.addend - at as i64).map_err(|e| e.to_string())?;
        let place = bytes.get_mut(at..at + 4).ok_or_else(|| format!("{reloc:?} is not in the code"))?;
        place.copy_from_slice(&distance.to_le_bytes());
    }
    if !code.buffer.relocs().is_empty() {
        bytes.extend(X64);
    }
    Ok(bytes)
}
