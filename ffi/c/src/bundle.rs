//! Bundles, and what is in them.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use fusewright_abi::ParamAccess;
use fusewright_runtime::bundle::{Bundle, BundleError, Entry};

use crate::status::{Failure, Status, guarded};

/// An open bundle, and the texts that it hands out.
#[derive(Debug)]
pub struct BundleHandle {
    pub(crate) bundle: Bundle,
    texts: Vec<Texts>,
}

/// Texts of a kernel as C reads them.
#[derive(Debug)]
struct Texts {
    name: CString,
    pattern: CString,
    target: CString,
    params: Vec<[CString; 2]>,
    uses: Vec<Vec<CString>>,
}

/// What a kernel is; texts are the bundle's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// Name, unique among kernels of one target.
    pub name: *const c_char,
    /// Name of the fused pattern.
    pub pattern: *const c_char,
    /// What it runs on, as the command line spells it.
    pub target: *const c_char,
    /// Number of tensors of a launch.
    pub parameters: usize,
    /// Number of regions of the graph that it computes.
    pub uses: usize,
}

/// How launches touch a parameter.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is read.
    In = 0,
    /// It is written, whatever it held.
    Out = 1,
    /// It is written in part, or read and written: it holds what its alias holds, in the same memory or copied.
    InOut = 2,
}

/// What a parameter of a kernel is; texts are the bundle's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ParameterInfo {
    /// Name in the graph.
    pub name: *const c_char,
    /// Name of the type of its elements.
    pub dtype: *const c_char,
    /// Number of axes.
    pub rank: usize,
    /// How launches touch it.
    pub access: Access,
    /// Index of the parameter whose memory this one may be given as well, or `SIZE_MAX`.
    pub alias: usize,
}

fn text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::argument(format!("{text:?} holds a zero byte")))
}

impl BundleHandle {
    fn of(bundle: Bundle) -> Result<BundleHandle, Failure> {
        let named = |values: &Vec<String>| values.iter().map(|value| text(value)).collect::<Result<Vec<_>, Failure>>();
        let texts = bundle.kernels().iter().map(|kernel| {
            let params = kernel.params.iter().map(|param| Ok([text(&param.name)?, text(param.dtype.name())?]));
            Ok(Texts {
                name: text(&kernel.name)?,
                pattern: text(&kernel.pattern)?,
                target: text(&kernel.target.to_string())?,
                params: params.collect::<Result<_, Failure>>()?,
                uses: kernel.uses.iter().map(named).collect::<Result<_, Failure>>()?,
            })
        });
        let texts = texts.collect::<Result<_, Failure>>()?;
        Ok(BundleHandle { bundle, texts })
    }

    /// The kernel of an index.
    pub(crate) fn entry(&self, index: usize) -> Result<&Entry, Failure> {
        let kernels = self.bundle.kernels();
        Ok(kernels.get(index).ok_or(BundleError::Missing { index, kernels: kernels.len() })?)
    }

    fn texts(&self, index: usize) -> Result<&Texts, Failure> {
        self.entry(index).map(|_| &self.texts[index])
    }
}

/// A reference that a caller gives, unless it is null.
///
/// # Safety
/// What is not null lies there, and is not changed meanwhile.
pub(crate) unsafe fn given<'h, T>(pointer: *const T, what: &str) -> Result<&'h T, Failure> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("`{what}` is null")))
}

/// Writes a result where a caller wants it, unless that is null.
///
/// # Safety
/// What is not null can be written.
pub(crate) unsafe fn put<T>(to: *mut T, what: &str, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument(format!("`{what}` is null")));
    }
    // SAFETY: as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

/// A text that a caller gives.
///
/// # Safety
/// What is not null ends with a zero byte.
unsafe fn said<'h>(pointer: *const c_char, what: &str) -> Result<&'h str, Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("`{what}` is null")));
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Failure::argument(format!("`{what}` is not UTF-8")))
}

/// Opens the bundle in a folder and checks its manifest; code is read when kernels are loaded.
///
/// # Safety
/// `folder` ends with a zero byte; `bundle` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_open(folder: *const c_char, bundle: *mut *mut BundleHandle) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let folder = unsafe { said(folder, "folder") }?;
        // SAFETY: as the caller says.
        unsafe { given(bundle, "bundle") }?;
        let handle = BundleHandle::of(Bundle::open(Path::new(folder))?)?;
        // SAFETY: as the caller says.
        unsafe { put(bundle, "bundle", Box::into_raw(Box::new(handle))) }
    })
}

/// Closes a bundle; its texts are gone, kernels that were loaded stay. Null is nothing.
///
/// # Safety
/// The handle is of `fusewright_bundle_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_close(bundle: *mut BundleHandle) {
    if !bundle.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(bundle) });
    }
}

/// How many kernels a bundle has, of all targets.
///
/// # Safety
/// The handle is open; `count` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_count(bundle: *const BundleHandle, count: *mut usize) -> Status {
    // SAFETY: as the caller says.
    guarded(|| unsafe { put(count, "count", given(bundle, "bundle")?.texts.len()) })
}

/// The index of the kernel of a name and a target.
///
/// # Safety
/// The handle is open, texts end with a zero byte, `index` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_find(
    bundle: *const BundleHandle,
    name: *const c_char,
    target: *const c_char,
    index: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let (bundle, name, target) =
            unsafe { (given(bundle, "bundle")?, said(name, "name")?, said(target, "target")?) };
        let kernels = bundle.bundle.kernels();
        let found = kernels.iter().position(|kernel| kernel.name == name && kernel.target.to_string() == target);
        let found = found.ok_or_else(|| Failure::argument(format!("no kernel `{name}` for {target}")))?;
        // SAFETY: as the caller says.
        unsafe { put(index, "index", found) }
    })
}

/// The index of the best variant of a kernel for this machine: for the highest level of its processor, or the newest code
/// that its GPU runs. `device` is `cpu`, `cuda` or `cuda:N`; `name` is without what tells levels of processors.
///
/// # Safety
/// As of `fusewright_bundle_find`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_choose(
    bundle: *const BundleHandle,
    name: *const c_char,
    device: *const c_char,
    index: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let (bundle, name, device) =
            unsafe { (given(bundle, "bundle")?, said(name, "name")?, said(device, "device")?) };
        // SAFETY: as the caller says.
        unsafe { put(index, "index", bundle.bundle.choose(name, device)?) }
    })
}

/// What the kernel of an index is.
///
/// # Safety
/// The handle is open; `info` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_info(
    bundle: *const BundleHandle,
    index: usize,
    info: *mut KernelInfo,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let texts = unsafe { given(bundle, "bundle") }?.texts(index)?;
        let found = KernelInfo {
            name: texts.name.as_ptr(),
            pattern: texts.pattern.as_ptr(),
            target: texts.target.as_ptr(),
            parameters: texts.params.len(),
            uses: texts.uses.len(),
        };
        // SAFETY: as the caller says.
        unsafe { put(info, "info", found) }
    })
}

/// What a parameter of the kernel of an index is.
///
/// # Safety
/// The handle is open; `info` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_parameter(
    bundle: *const BundleHandle,
    index: usize,
    parameter: usize,
    info: *mut ParameterInfo,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let bundle = unsafe { given(bundle, "bundle") }?;
        let texts = bundle.texts(index)?;
        let params = &bundle.entry(index)?.params;
        let missing = || Failure::argument(format!("no parameter {parameter}: the kernel has {}", params.len()));
        let param = params.get(parameter).ok_or_else(missing)?;
        let [name, dtype] = &texts.params[parameter];
        let access = match param.access {
            ParamAccess::In => Access::In,
            ParamAccess::Out => Access::Out,
            ParamAccess::InOut => Access::InOut,
        };
        let found = ParameterInfo {
            name: name.as_ptr(),
            dtype: dtype.as_ptr(),
            rank: param.rank as usize,
            access,
            alias: param.alias.unwrap_or(usize::MAX),
        };
        // SAFETY: as the caller says.
        unsafe { put(info, "info", found) }
    })
}

/// The value of the graph that a parameter is in a use of a kernel, by its name in the graph's text, such as `%x`.
///
/// # Safety
/// The handle is open; `value` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_bundle_value(
    bundle: *const BundleHandle,
    index: usize,
    of_use: usize,
    parameter: usize,
    value: *mut *const c_char,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let texts = unsafe { given(bundle, "bundle") }?.texts(index)?;
        let (uses, params) = (texts.uses.len(), texts.params.len());
        let found = texts.uses.get(of_use).and_then(|values| values.get(parameter));
        let missing =
            || format!("no parameter {parameter} of a use {of_use}: it has {uses} uses of {params} parameters");
        let found = found.ok_or_else(|| Failure::argument(missing()))?;
        // SAFETY: as the caller says.
        unsafe { put(value, "value", found.as_ptr()) }
    })
}
