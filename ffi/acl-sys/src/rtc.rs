//! Functions of the run-time compiler.

use std::ffi::{c_char, c_int};

use libloading::{Error, Library};

use crate::functions::table;
use crate::types::*;

table! {
    /// The run-time compiler: from Ascend C to a binary.
    Rtc
    baseline {
        fn aclrtcCreateProg(
            program: *mut aclrtcProg, source: *const c_char, name: *const c_char, count: c_int,
            headers: *const *const c_char, names: *const *const c_char
        );
        fn aclrtcCompileProg(program: aclrtcProg, count: c_int, options: *const *const c_char);
        fn aclrtcGetBinDataSize(program: aclrtcProg, size: *mut usize);
        fn aclrtcGetBinData(program: aclrtcProg, data: *mut c_char);
        fn aclrtcGetCompileLogSize(program: aclrtcProg, size: *mut usize);
        fn aclrtcGetCompileLog(program: aclrtcProg, log: *mut c_char);
        fn aclrtcDestroyProg(program: *mut aclrtcProg);
    }
    newer {
        fn aclrtcAddNameExpr(program: aclrtcProg, expression: *const c_char);
        fn aclrtcGetLoweredName(program: aclrtcProg, expression: *const c_char, name: *mut *const c_char);
    }
}

impl Rtc {
    /// How many files the functions are of.
    pub fn files(&self) -> usize {
        self.libraries.len()
    }
}

impl std::fmt::Debug for Rtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rtc")
    }
}
