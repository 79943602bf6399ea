//! The vendor's run-time compiler: from Ascend C to a binary, within this process.

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use fusewright_acl_sys as sys;

use super::api::system;

/// The run-time compiler of this machine.
#[derive(Debug)]
pub struct Rtc {
    library: sys::Rtc,
    file: PathBuf,
}

/// A program, until it is dropped.
struct Program<'r> {
    rtc: &'r sys::Rtc,
    raw: sys::aclrtcProg,
}

impl Rtc {
    /// The first of these files that is a run-time compiler.
    ///
    /// # Errors
    /// No such file, with what was looked for, in words.
    pub fn open(files: &[PathBuf]) -> Result<Rtc, String> {
        let mut said = String::new();
        for file in files {
            match sys::load_rtc(file) {
                Ok(library) => return Ok(Rtc { library, file: file.clone() }),
                Err(error) if said.is_empty() => said = format!(": {}", system(&error)),
                Err(_) => {}
            }
        }
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        Err(format!("no run-time compiler of Ascend C: looked for {}{said}", names.join(", ")))
    }

    /// Its file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The binary of a source that includes these headers, with the compiler's options, such as `--npu-arch=dav-2201`.
    /// `name` is that of the source in messages.
    ///
    /// # Errors
    /// What the compiler says of the source.
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        options: &[&str],
    ) -> Result<Vec<u8>, String> {
        let text = |text: &str| CString::new(text).map_err(|_| format!("{name}: a text with a zero"));
        let (source, file) = (text(source)?, text(&format!("{name}.asc"))?);
        let bodies = headers.iter().map(|(_, body)| text(body)).collect::<Result<Vec<_>, _>>()?;
        let names = headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>, _>>()?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let [bodies, names, options] = [&bodies, &names, &options].map(|texts| pointers(texts));
        let count = |texts: &[*const c_char]| i32::try_from(texts.len()).map_err(|_| "too many texts".to_owned());
        let mut raw = null_mut();
        // SAFETY: all texts are terminated and live through the call; the function writes one handle.
        let answer = unsafe {
            let (all, called) = (bodies.as_ptr(), names.as_ptr());
            (self.library.aclrtcCreateProg)(&mut raw, source.as_ptr(), file.as_ptr(), count(&bodies)?, all, called)
        };
        said("aclrtcCreateProg", answer, name)?;
        let program = Program { rtc: &self.library, raw };
        // SAFETY: the program was made above; the options live through the call.
        let answer = unsafe { (self.library.aclrtcCompileProg)(raw, count(&options)?, options.as_ptr()) };
        said("aclrtcCompileProg", answer, name).map_err(|error| format!("{error}\n{}", program.log()))?;
        program.binary(name)
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

fn said(function: &str, answer: sys::aclError, name: &str) -> Result<(), String> {
    match sys::name_of(answer) {
        _ if answer == sys::ACL_SUCCESS => Ok(()),
        Some(word) => Err(format!("{name}: {function}: {word} ({answer})")),
        None => Err(format!("{name}: {function}: answer {answer}")),
    }
}

impl Program<'_> {
    fn binary(&self, name: &str) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program is compiled; the function writes one number.
        said("aclrtcGetBinDataSize", unsafe { (self.rtc.aclrtcGetBinDataSize)(self.raw, &mut size) }, name)?;
        let mut bytes = vec![0u8; size];
        // SAFETY: there is room for as many bytes as the program has.
        let answer = unsafe { (self.rtc.aclrtcGetBinData)(self.raw, bytes.as_mut_ptr().cast()) };
        said("aclrtcGetBinData", answer, name).map(|()| bytes)
    }

    /// What the compiler said.
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is alive; the function writes one number.
        if unsafe { (self.rtc.aclrtcGetCompileLogSize)(self.raw, &mut size) } != sys::ACL_SUCCESS {
            return String::new();
        }
        // Room for an end that the size may not count.
        let mut log = vec![0u8; size + 1];
        // SAFETY: there is room for as many bytes as the log has.
        if unsafe { (self.rtc.aclrtcGetCompileLog)(self.raw, log.as_mut_ptr().cast()) } != sys::ACL_SUCCESS {
            return String::new();
        }
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(size);
        String::from_utf8_lossy(&log[..end]).trim().to_owned()
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is ours.
        unsafe { (self.rtc.aclrtcDestroyProg)(&mut self.raw) };
    }
}
