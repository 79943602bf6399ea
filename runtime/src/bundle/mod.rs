//! Bundles: kernels that were compiled ahead, read back from their folder without a compiler.
//!
//! [`Bundle::open`] reads and checks the manifest and opens nothing else. [`Bundle::load`] reads the code of one kernel,
//! compares it with the manifest's length and SHA-256, and hands it to a device. The hashes tell torn and exchanged
//! files; a bundle is code, so who may write to its folder is to be trusted.

mod fit;
mod manifest;
mod variants;

pub use fit::Fitted;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use fusewright_abi::{Claim, ContentKey, DimArg, KernelArtifact, LaunchRule, Param, Payload, PayloadKind, Target};
use sha2::{Digest, Sha256};

use crate::{Device, Module, RuntimeError};

/// The file of a bundle that names all others.
pub const MANIFEST: &str = "manifest.json";
/// Bytes that a manifest may have.
const LONGEST_MANIFEST: u64 = 64 << 20;

/// What the manifest compares a file with.
pub fn digest(bytes: &[u8]) -> ContentKey {
    ContentKey(Sha256::digest(bytes).into())
}

/// A bundle whose manifest was found to be right.
#[derive(Clone, Debug)]
pub struct Bundle {
    folder: PathBuf,
    model: String,
    kernels: Vec<Entry>,
}

/// A kernel of a bundle.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name, unique among the bundle's kernels of one target.
    pub name: String,
    /// Name of the fused pattern.
    pub pattern: String,
    /// What it runs on.
    pub target: Target,
    /// Hash of all that changes the code.
    pub key: ContentKey,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// Extents of each buffer, as expressions over the names of `dims`.
    pub shapes: Vec<Vec<String>>,
    /// Of each region of the graph that it computes, the values that its parameters are, by their names in the graph's text.
    pub uses: Vec<Vec<String>>,
    /// Integer arguments.
    pub dims: Vec<DimArg>,
    /// These hold of every launch that has rows.
    pub claims: Vec<Claim>,
    /// How it is launched.
    pub launch: LaunchRule,
    code: Code,
}

/// A file of code.
#[derive(Clone, Debug)]
struct Code {
    file: String,
    kind: PayloadKind,
    bytes: u64,
    sha256: ContentKey,
}

/// Why a bundle, or a kernel of one, cannot be had.
#[derive(Debug)]
pub enum BundleError {
    /// A file or folder that cannot be read.
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A manifest of another version of the calling convention.
    Version {
        /// The version that it states.
        found: u64,
    },
    /// A manifest that is not as [`Bundle`] reads it.
    Manifest {
        /// Where in it, such as `kernels[2].params[0].dtype`.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A file that is not what the manifest says.
    Payload {
        /// Name of the kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// No kernel of that index.
    Missing {
        /// The index.
        index: usize,
        /// How many there are.
        kernels: usize,
    },
    /// No kernel of a name that runs here.
    NoVariant {
        /// The name.
        name: String,
        /// The device, such as `cpu` or `cuda:1`.
        family: String,
        /// Targets that the bundle has the kernel for.
        targets: Vec<String>,
    },
    /// The device does not take the kernel.
    Device(RuntimeError),
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BundleError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            BundleError::Version { found } => {
                let ours = fusewright_abi::ABI_VERSION;
                write!(f, "the bundle is of version {found} of the calling convention, not {ours}: compile it again")
            }
            BundleError::Manifest { place, reason } => write!(f, "{MANIFEST}: {place}: {reason}"),
            BundleError::Payload { kernel, reason } => write!(f, "code of `{kernel}`: {reason}"),
            BundleError::Missing { index, kernels } => write!(f, "no kernel {index}: the bundle has {kernels}"),
            BundleError::NoVariant { name, family, targets } if targets.is_empty() => {
                write!(f, "the bundle has no kernel `{name}`, for `{family}` or anything else")
            }
            BundleError::NoVariant { name, family, targets } => {
                write!(f, "no `{family}` of this machine runs `{name}`, which is there for {}", targets.join(", "))
            }
            BundleError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BundleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BundleError::Io { source, .. } => Some(source),
            BundleError::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl Bundle {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// A folder or manifest that cannot be read, another version, a manifest that contradicts itself.
    pub fn open(folder: &Path) -> Result<Bundle, BundleError> {
        let folder = folder.canonicalize().map_err(|source| unread(folder, source))?;
        let path = folder.join(MANIFEST);
        let bytes = read(&path, LONGEST_MANIFEST).map_err(|source| unread(&path, source))?;
        let (model, kernels) = manifest::parse(&bytes)?;
        Ok(Bundle { folder, model, kernels })
    }

    /// Name of the graph that it was compiled from.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Its kernels, in the manifest's order.
    pub fn kernels(&self) -> &[Entry] {
        &self.kernels
    }

    /// Loads a kernel on a device.
    ///
    /// # Errors
    /// No such kernel; a file that is missing, lies outside the folder or is not what the manifest says; a device that does
    /// not take it.
    pub fn load(&self, index: usize, device: &dyn Device) -> Result<Arc<dyn Module>, BundleError> {
        let missing = || BundleError::Missing { index, kernels: self.kernels.len() };
        let entry = self.kernels.get(index).ok_or_else(missing)?;
        if !device.takes(entry.code.kind) {
            let reason = format!("`{}` does not load files of kind `{}`", device.target(), entry.code.kind.extension());
            return Err(BundleError::Payload { kernel: entry.name.clone(), reason });
        }
        let payload = Payload { kind: entry.code.kind, bytes: self.code(entry)? };
        device.load(&entry.artifact(payload)).map_err(BundleError::Device)
    }

    /// The code of a kernel, compared with the manifest.
    fn code(&self, entry: &Entry) -> Result<Vec<u8>, BundleError> {
        let refuse = |reason: String| BundleError::Payload { kernel: entry.name.clone(), reason };
        let code = &entry.code;
        let path = self.folder.join(&code.file);
        let path = path.canonicalize().map_err(|source| unread(&path, source))?;
        // A link may lead out of the folder where the text of the path does not.
        if !path.starts_with(&self.folder) {
            return Err(refuse(format!("{} lies outside the bundle", path.display())));
        }
        let bytes = read(&path, code.bytes).map_err(|source| unread(&path, source))?;
        if bytes.len() as u64 != code.bytes {
            return Err(refuse(format!("{} has {} bytes, not {}", path.display(), bytes.len(), code.bytes)));
        }
        if digest(&bytes) != code.sha256 {
            return Err(refuse(format!("{} is not what was compiled: its SHA-256 differs", path.display())));
        }
        Ok(bytes)
    }
}

impl Entry {
    fn artifact(&self, payload: Payload) -> KernelArtifact {
        KernelArtifact {
            name: self.name.clone(),
            target: self.target.clone(),
            key: self.key,
            params: self.params.clone(),
            dims: self.dims.clone(),
            claims: self.claims.clone(),
            launch: self.launch.clone(),
            payload,
        }
    }
}

/// Whether a path stays below the folder that it is relative to.
pub fn is_below(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The bytes of a regular file that is not longer than that.
fn read(path: &Path, longest: u64) -> std::io::Result<Vec<u8>> {
    // Asked before it is opened, since to open a pipe waits for its other end.
    let found = std::fs::metadata(path)?;
    if !found.is_file() || found.len() > longest {
        let reason = format!("no file of at most {longest} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(longest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unread(path: &Path, source: std::io::Error) -> BundleError {
    BundleError::Io { path: path.to_owned(), source }
}
