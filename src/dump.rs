//! Every stage of compilation as a file, in the folder that [`knobs::DUMP_DIR`] names.
//!
//! ```text
//! GRAPH-KEY/00-input.fw, 01-PASS.fw, 02-PASS.fw …   the graph as it came and after each pass
//! GRAPH-KEY/fused/000-NAME.fw …                     the bodies of its regions; `lone/` where every op is one
//! kernels/TARGET/NAME-KEY/0-body.fw                 the body in primitives
//!                         1-lowered.fw              Kernel IR as lowered
//!                         2-expanded.fw             and expanded for the target
//!                         3-NAME.EXT …              the backend's stages, then the file for a linker or a driver
//! ```
//! Names sort in the order of the stages and depend on content alone. A file appears whole or not at all.

use std::path::{Path, PathBuf};

use fusewright_abi::Target;
use fusewright_codegen::kernel::Kernel;
use fusewright_fusion::key::body_key;
use fusewright_fusion::region::Partition;
use fusewright_graph::Graph;

use crate::toolchain::Toolchain;
use crate::{Error, knobs, write_whole};

/// A folder of stages.
#[derive(Clone, Debug)]
pub(crate) struct DumpFolder(PathBuf);

impl DumpFolder {
    /// The folder that the environment asks for, if it does.
    pub fn from_environment() -> Option<DumpFolder> {
        knobs::DUMP_DIR.path().map(DumpFolder)
    }

    /// Writes a graph as it came and after each pass that ran.
    pub fn passes(&self, graph: &Graph, after: &[(String, String)]) -> Result<(), Error> {
        let folder = self.of_graph(graph)?;
        write(&folder.join("00-input.fw"), graph.to_string().as_bytes())?;
        for (i, (pass, text)) in after.iter().enumerate() {
            write(&folder.join(format!("{:02}-{pass}.fw", i + 1)), text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes the bodies of a graph's regions.
    pub fn regions(&self, graph: &Graph, partition: &Partition, fused: bool) -> Result<(), Error> {
        let folder = self.of_graph(graph)?.join(if fused { "fused" } else { "lone" });
        for (i, region) in partition.regions.iter().enumerate() {
            let file = folder.join(format!("{i:03}-{}.fw", file_name(&region.name)));
            write(&file, region.body.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Writes the stages of a kernel as far as it gets; what refuses it is reported by whoever compiles it.
    pub fn kernel(
        &self,
        name: &str,
        body: &Graph,
        forms: Option<&(Kernel, Kernel)>,
        toolchain: &Toolchain,
        target: &Target,
    ) -> Result<(), Error> {
        let folder = folder_of(&self.0, name, body, target)?;
        write(&folder.join(BODY), body.to_string().as_bytes())?;
        let Some((lowered, expanded)) = forms else { return Ok(()) };
        write(&folder.join(LOWERED), lowered.to_string().as_bytes())?;
        write(&folder.join(EXPANDED), expanded.to_string().as_bytes())?;
        let Ok(stages) = toolchain.stages(expanded, target) else { return Ok(()) };
        for (i, emitted) in stages.iter().enumerate() {
            write(&folder.join(stage_name(i, expanded, emitted.extension)), &emitted.bytes)?;
        }
        match toolchain.file(expanded, target) {
            Ok(file) if stages.last().is_none_or(|last| last.bytes != file.bytes) => {
                write(&folder.join(stage_name(stages.len(), expanded, file.kind.extension())), &file.bytes)
            }
            _ => Ok(()),
        }
    }

    fn of_graph(&self, graph: &Graph) -> Result<PathBuf, Error> {
        Ok(self.0.join(format!("{}-{}", file_name(graph.name()), short_key(graph)?)))
    }
}

/// Where the stages of a kernel lie below a folder of stages.
pub(crate) fn folder_of(root: &Path, name: &str, body: &Graph, target: &Target) -> Result<PathBuf, Error> {
    let of_target = root.join("kernels").join(file_name(&target.to_string()));
    Ok(of_target.join(format!("{}-{}", file_name(name), short_key(body)?)))
}

/// The file of a kernel's body.
pub(crate) const BODY: &str = "0-body.fw";
/// The file of its Kernel IR as lowered.
pub(crate) const LOWERED: &str = "1-lowered.fw";
/// The file of its Kernel IR as expanded.
pub(crate) const EXPANDED: &str = "2-expanded.fw";

/// The file of a stage that a backend emits, by its position.
pub(crate) fn stage_name(position: usize, kernel: &Kernel, extension: &str) -> String {
    format!("{}-{}.{extension}", 3 + position, kernel.name)
}

fn short_key(graph: &Graph) -> Result<String, Error> {
    body_key(graph).map(|key| key.short()).map_err(|e| Error::Internal(e.to_string()))
}

/// A name as part of a path.
fn file_name(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '-' };
    name.chars().map(word).collect()
}

/// Writes a stage; the error names the variable that asked for it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().map_or(Ok(()), |folder| {
        std::fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_owned(), source })
    });
    let written = folder.and_then(|()| write_whole(path, bytes));
    written.map_err(|error| Error::Input(format!("{}: {error}", knobs::DUMP_DIR.name)))
}
