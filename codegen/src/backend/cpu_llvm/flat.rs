//! Object files as code that a driver maps: the function and the constants behind it in one piece, linked.
//!
//! The piece is position-independent, its entry is at offset 0, and nothing in it refers to anything outside.

use std::collections::BTreeMap;

use object::{
    Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SectionFlags, SectionIndex, SectionKind, elf,
};

/// Links an object file whose one function has that name.
pub(super) fn link(bytes: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let file = object::File::parse(bytes).map_err(|e| e.to_string())?;
    // The file's own name is a symbol too, and may be the same.
    let is_entry = |symbol: &object::Symbol<'_, '_>| symbol.is_definition() && symbol.name() == Ok(name);
    let entry = file.symbols().find(is_entry).ok_or_else(|| format!("the object has no `{name}`"))?;
    let text = entry.section_index().ok_or_else(|| format!("`{name}` is nowhere"))?;
    if entry.address() != 0 {
        return Err(format!("`{name}` does not start its section"));
    }
    let (places, mut code) = lay_out(&file, text)?;
    for section in file.sections().filter(|section| places.contains_key(&section.index().0)) {
        let start = places[&section.index().0];
        for (offset, relocation) in section.relocations() {
            let to = target(&file, &places, relocation.target())?;
            let relative = matches!(relocation.kind(), RelocationKind::Relative | RelocationKind::PltRelative);
            if !relative || relocation.size() != 32 {
                return Err(format!("a relocation {:?} of {} bits", relocation.kind(), relocation.size()));
            }
            let at = start + offset as usize;
            let distance = to as i64 + relocation.addend() - at as i64;
            let distance = i32::try_from(distance).map_err(|_| "code of more than 2 GiB".to_owned())?;
            let place = code.get_mut(at..at + 4).ok_or("a relocation outside its section")?;
            place.copy_from_slice(&distance.to_le_bytes());
        }
    }
    Ok(code)
}

/// Offsets of the sections that are mapped, and their bytes one after the other, the function first.
fn lay_out(file: &object::File<'_>, text: SectionIndex) -> Result<(BTreeMap<usize, usize>, Vec<u8>), String> {
    let mut sections: Vec<_> = file.sections().filter(|s| s.size() > 0 && is_mapped(s)).collect();
    sections.sort_by_key(|section| (section.index() != text, section.index().0));
    let (mut places, mut code) = (BTreeMap::new(), Vec::new());
    for section in sections {
        if matches!(section.kind(), SectionKind::Data | SectionKind::UninitializedData | SectionKind::Tls) {
            return Err(format!("variables in `{}`", section.name().unwrap_or_default()));
        }
        code.resize(code.len().next_multiple_of(section.align().max(1) as usize), 0);
        places.insert(section.index().0, code.len());
        code.extend_from_slice(section.data().map_err(|e| e.to_string())?);
    }
    Ok((places, code))
}

/// Whether a section is there when the code runs.
fn is_mapped(section: &object::Section<'_, '_>) -> bool {
    let allocated = match section.flags() {
        SectionFlags::Elf { sh_flags } => sh_flags & u64::from(elf::SHF_ALLOC) != 0,
        _ => !matches!(section.kind(), SectionKind::Debug | SectionKind::Metadata | SectionKind::Other),
    };
    // Unwinding tables are for exceptions, and there are none.
    allocated && section.name() != Ok(".eh_frame")
}

/// The offset of what a relocation refers to.
fn target(file: &object::File<'_>, places: &BTreeMap<usize, usize>, target: RelocationTarget) -> Result<usize, String> {
    let (section, offset, name) = match target {
        RelocationTarget::Section(index) => (Some(index), 0, String::new()),
        RelocationTarget::Symbol(index) => {
            let symbol = file.symbol_by_index(index).map_err(|e| e.to_string())?;
            (symbol.section_index(), symbol.address(), symbol.name().unwrap_or_default().to_owned())
        }
        _ => return Err("a relocation to no place".to_owned()),
    };
    let place = section.and_then(|index| places.get(&index.0));
    let place = place.ok_or_else(|| format!("it calls or reads `{name}`, which is not part of it"))?;
    Ok(place + offset as usize)
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;
    use inkwell::memory_buffer::MemoryBuffer;
    use inkwell::targets::FileType;

    use super::*;
    use crate::backend::cpu_llvm::machine::Host;

    fn linked(ir: &str) -> Result<Vec<u8>, String> {
        let host = Host::of(None).expect("the host is taken");
        let ctx = Context::create();
        let text = MemoryBuffer::create_from_memory_range_copy(ir.as_bytes(), "k");
        let module = ctx.create_module_from_ir(text).expect("LLVM IR");
        let object = host.machine.write_to_memory_buffer(&module, FileType::Object).expect("an object");
        link(object.as_slice(), "k")
    }

    #[test]
    fn constants_lie_behind_the_function_that_reads_them() {
        let lanes: Vec<String> = (0..8).map(|i| format!("i32 {}", 0x1234_5600 + i)).collect();
        let vector = format!("<8 x i32> <{}>", lanes.join(", "));
        let ir = format!("define void @k(ptr %p) nounwind {{ store {vector}, ptr %p, align 4\n ret void }}");
        let code = linked(&ir).expect("it needs nothing else");
        let constant: Vec<u8> = (0..8u32).flat_map(|i| (0x1234_5600 + i).to_le_bytes()).collect();
        let place = code.windows(32).position(|bytes| bytes == constant).expect("the constant is there");
        assert!(place > 0 && place % 32 == 0, "{place}");
    }

    #[test]
    fn what_is_elsewhere_is_named() {
        let called = linked("declare void @helper()\n define void @k() nounwind { call void @helper()\n ret void }");
        assert!(called.is_err_and(|e| e.contains("`helper`")));
        let state = "@state = global i32 1\n define void @k() nounwind { store i32 2, ptr @state\n ret void }";
        assert!(linked(state).is_err_and(|e| e.contains("variables in `.data`")));
        let none = linked("define void @other() nounwind { ret void }");
        assert!(none.is_err_and(|e| e.contains("no `k`")));
    }
}
