//! Object files: a kernel's code under its name, for a linker.

use std::sync::Arc;

use cranelift_codegen::ir::{AbiParam, types::I64};
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};

use super::MachineCode;

/// Writes the object; the bytes depend on the code and the name alone.
pub(super) fn write(name: &str, isa: Arc<dyn TargetIsa>, code: &MachineCode) -> Result<Vec<u8>, String> {
    let builder = ObjectBuilder::new(isa, name, default_libcall_names()).map_err(|e| e.to_string())?;
    let mut module = ObjectModule::new(builder);
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(I64); 4];
    let function = module.declare_function(name, Linkage::Export, &signature).map_err(|e| e.to_string())?;
    let align = u64::from(code.alignment).max(16);
    module.define_function_bytes(function, align, &code.bytes, &[]).map_err(|e| e.to_string())?;
    module.finish().emit().map_err(|e| e.to_string())
}
