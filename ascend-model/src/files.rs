//! The model's own C++ files, as they go with this crate.

/// A file: its path under the folder of the model, and its text.
pub(crate) type File = (&'static str, &'static str);

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../", $path)))),*] };
}

/// What kernels include.
pub(crate) const HEADERS: &[File] = files![
    "include/ascend_model.h",
    "include/ascend_model/cast.h",
    "include/ascend_model/chip.h",
    "include/ascend_model/compare.h",
    "include/ascend_model/copy.h",
    "include/ascend_model/dtypes.h",
    "include/ascend_model/elementwise.h",
    "include/ascend_model/enums.h",
    "include/ascend_model/gather.h",
    "include/ascend_model/keywords.h",
    "include/ascend_model/mask.h",
    "include/ascend_model/numbers.h",
    "include/ascend_model/params.h",
    "include/ascend_model/pipe.h",
    "include/ascend_model/reduce.h",
    "include/ascend_model/runtime.h",
    "include/ascend_model/sync.h",
    "include/ascend_model/tensor.h",
    "include/kernel_operator.h",
];

/// The library: headers of its own and sources.
pub(crate) const RUNTIME: &[File] = files![
    "runtime/buffers.cpp",
    "runtime/buffers.h",
    "runtime/calls.cpp",
    "runtime/compare.cpp",
    "runtime/compute.cpp",
    "runtime/compute.h",
    "runtime/convert.cpp",
    "runtime/gather.cpp",
    "runtime/global.cpp",
    "runtime/global.h",
    "runtime/lanes.cpp",
    "runtime/lanes.h",
    "runtime/launch.cpp",
    "runtime/machine.cpp",
    "runtime/machine.h",
    "runtime/modes.cpp",
    "runtime/modes.h",
    "runtime/order.cpp",
    "runtime/order.h",
    "runtime/reduce.cpp",
    "runtime/report.cpp",
    "runtime/report.h",
    "runtime/round.cpp",
    "runtime/round.h",
    "runtime/touches.cpp",
    "runtime/touches.h",
    "runtime/transfer.cpp",
    "runtime/unified.cpp",
    "runtime/unified.h",
    "runtime/vector.cpp",
];

/// The stand-in of the vendor's runtime.
pub(crate) const STAND_IN: &[File] = files![
    "acl/binary.cpp",
    "acl/binary.h",
    "acl/call.cpp",
    "acl/call.h",
    "acl/capture.cpp",
    "acl/capture.h",
    "acl/copy.cpp",
    "acl/device.cpp",
    "acl/event.cpp",
    "acl/event.h",
    "acl/interface.h",
    "acl/kernel_arguments.h",
    "acl/launch.cpp",
    "acl/memory.cpp",
    "acl/memory.h",
    "acl/rtc.cpp",
    "acl/state.h",
    "acl/stream.cpp",
    "acl/stream.h",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::{HEADERS, RUNTIME};

    fn on_disk(folder: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![folder.to_string()];
        while let Some(folder) = folders.pop() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder);
            for entry in std::fs::read_dir(path).expect("a folder of this crate").flatten() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if entry.path().is_dir() {
                    folders.push(name);
                } else {
                    found.insert(name);
                }
            }
        }
        found
    }

    #[test]
    fn the_lists_are_what_the_folders_hold() {
        for (list, folder) in [(HEADERS, "include"), (RUNTIME, "runtime")] {
            let listed: BTreeSet<String> = list.iter().map(|(path, _)| path.to_string()).collect();
            assert_eq!(listed, on_disk(folder));
        }
    }
}
