//! Types of the runtime: handles, structures and functions that it calls back.

use std::ffi::{c_char, c_int, c_void};

/// What functions answer.
pub type aclError = c_int;

/// Handles: names for what the runtime has.
macro_rules! handles {
    ($($inside:ident $name:ident;)*) => {$(
        #[repr(C)]
        #[derive(Debug)]
        pub struct $inside {
            _unused: [u8; 0],
        }
        pub type $name = *mut $inside;
    )*};
}

handles! {
    AclContext aclrtContext;
    AclStream aclrtStream;
    AclEvent aclrtEvent;
    AclBinary aclrtBinHandle;
    AclFunction aclrtFuncHandle;
    AclArguments aclrtArgsHandle;
    AclParameter aclrtParamHandle;
    AclModelInstance aclmdlRI;
    AclProgram aclrtcProg;
}

/// Numbers of enumerations are `int`s of the vendor's C.
pub type aclrtMemMallocPolicy = c_int;
pub type aclrtMemcpyKind = c_int;
pub type aclrtMemAttr = c_int;
pub type aclrtDevAttr = c_int;
pub type aclrtStreamStatus = c_int;
pub type aclrtEventRecordedStatus = c_int;
pub type aclmdlRICaptureMode = c_int;
pub type aclmdlRICaptureStatus = c_int;

/// One option of loading a binary; its value is a number of 32 bits in the first four bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct aclrtBinaryLoadOption {
    pub kind: c_int,
    pub value: [u32; 4],
}

#[repr(C)]
#[derive(Debug)]
pub struct aclrtBinaryLoadOptions {
    pub options: *mut aclrtBinaryLoadOption,
    pub numOpt: usize,
}

/// One attribute of a launch; its value is a number of up to 32 bits in the first four bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct aclrtLaunchKernelAttr {
    pub id: c_int,
    pub value: [u32; 4],
}

#[repr(C)]
#[derive(Debug)]
pub struct aclrtLaunchKernelCfg {
    pub attrs: *mut aclrtLaunchKernelAttr,
    pub numAttrs: usize,
}

/// Where in the arguments of a launch an address stands, and where in them what it is the address of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct aclrtPlaceHolderInfo {
    pub addrOffset: u32,
    pub dataOffset: u32,
}

/// A function of the host that a stream calls.
pub type aclrtHostFunc = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// A terminated string that the runtime keeps.
pub type Text = *const c_char;

/// A function that notes that the host wrote so many bytes.
pub type Simulated = unsafe extern "C" fn(at: *const c_void, bytes: usize);
