//! Launches in every form, and what is refused of their arguments.

use super::*;

/// Memory of the device that a launch has, and what comes out.
struct Case {
    stream: aclrtStream,
    x: *mut c_void,
    y: *mut c_void,
}

impl Case {
    fn new(rt: &Runtime) -> Case {
        Case { stream: rt.stream(), x: rt.numbers(&[1.0, 2.0, 3.0]), y: rt.numbers(&[0.0; 3]) }
    }

    fn came_out(&self, rt: &Runtime) {
        rt.ok(rt.wait(self.stream));
        assert_eq!(rt.read(self.y, 3), [2.0, 3.0, 4.0]);
        rt.ok(unsafe { (rt.acl.aclrtMemset)(self.y, 12, 0, 12) });
    }
}

#[test]
fn every_form_of_a_launch_does_the_same() {
    let Some(rt) = runtime("every_form_of_a_launch_does_the_same") else { return };
    let (case, (binary, function)) = (Case::new(&rt), rt.load());
    let Case { stream, x, y } = case;
    rt.ok(rt.launch(function, (x, y), 3, stream));
    case.came_out(&rt);
    let mut values = [x as u64, y as u64, 0, 3];
    let (config, at) = (null_mut(), values.as_mut_ptr().cast::<c_void>());
    let with_host = rt.acl.aclrtLaunchKernelWithHostArgs.expect("the newest version has it");
    rt.ok(unsafe { with_host(function, 3, stream, config, at, 32, null_mut(), 0) });
    case.came_out(&rt);
    // The list of arguments on the device is read when the kernel runs.
    let list = rt.numbers(&[0.0; 8]);
    let on_device = rt.acl.aclrtLaunchKernelV2.expect("the newest version has it");
    rt.ok(unsafe { on_device(function, 1, list, 32, config, stream) });
    rt.ok(unsafe { (rt.acl.aclrtMemcpy)(list, 32, at, 32, ACL_MEMCPY_HOST_TO_DEVICE) });
    case.came_out(&rt);
    rt.ok(unsafe { (rt.acl.aclrtLaunchKernel)(function, 5, list, 32, stream) });
    case.came_out(&rt);
    let arguments = appended(&rt, function, &mut values);
    rt.ok(unsafe { (rt.acl.aclrtKernelArgsFinalize)(arguments) });
    let launch = |list| unsafe { (rt.acl.aclrtLaunchKernelWithConfig)(function, 2, stream, config, list, null_mut()) };
    rt.ok(launch(arguments));
    rt.refused(launch(arguments), "one that was launched");
    rt.refused(unsafe { (rt.acl.aclrtBinaryUnLoad)(binary) }, "is still to run");
    case.came_out(&rt);
    rt.ok(unsafe { (rt.acl.aclrtBinaryUnLoad)(binary) });
    rt.refused(rt.launch(function, (x, y), 3, stream), "no function");
}

fn appended(rt: &Runtime, function: aclrtFuncHandle, values: &mut [u64]) -> aclrtArgsHandle {
    let (mut list, mut parameter) = (null_mut(), null_mut());
    rt.ok(unsafe { (rt.acl.aclrtKernelArgsInit)(function, &mut list) });
    for value in values {
        let at = std::ptr::from_mut(value).cast();
        rt.ok(unsafe { (rt.acl.aclrtKernelArgsAppend)(list, at, 8, &mut parameter) });
    }
    list
}

#[test]
fn arguments_are_checked_against_the_kernel() {
    let Some(rt) = runtime("arguments_are_checked_against_the_kernel") else { return };
    let (Case { stream, x, y }, (_, function)) = (Case::new(&rt), rt.load());
    let mut values = [x as u64, y as u64, 0, 3, 9];
    let with_host = rt.acl.aclrtLaunchKernelWithHostArgs.expect("the newest version has it");
    let at = values.as_mut_ptr().cast::<c_void>();
    let bytes = |size| unsafe { with_host(function, 2, stream, null_mut(), at, size, null_mut(), 0) };
    rt.refused(bytes(24), "takes 32 bytes of arguments, not 24");
    rt.refused(bytes(40), "takes 32 bytes of arguments, not 40");
    let (mut parameter, mut word) = (null_mut(), 0u64);
    let at = std::ptr::from_mut(&mut word).cast();
    let short = appended(&rt, function, &mut values[..3]);
    rt.refused(unsafe { (rt.acl.aclrtKernelArgsFinalize)(short) }, "takes 4 arguments, not 3");
    rt.refused(unsafe { (rt.acl.aclrtKernelArgsAppend)(short, at, 4, &mut parameter) }, "none of 4 bytes");
    let full = appended(&rt, function, &mut values[..4]);
    rt.refused(unsafe { (rt.acl.aclrtKernelArgsAppend)(full, at, 8, &mut parameter) }, "argument 4");
    let mut host = [0f32; 3];
    rt.refused(rt.launch(function, (x, host.as_mut_ptr().cast()), 3, stream), "is no memory of the device");
    let none = |blocks| unsafe { (rt.acl.aclrtLaunchKernel)(function, blocks, x, 32, stream) };
    rt.refused(none(0), "no launches on 0 cores");
    let mut missing = null_mut();
    let (binary, _) = rt.load();
    rt.refused(unsafe { (rt.acl.aclrtBinaryGetFunction)(binary, c"sub_one".as_ptr(), &mut missing) }, "`sub_one`");
    let load = rt.acl.aclrtBinaryLoadFromData.expect("the newest version has it");
    rt.refused(unsafe { load(b"text".as_ptr().cast(), 4, std::ptr::null(), &mut null_mut()) }, "no binary");
}

#[test]
fn what_a_kernel_must_not_do_is_said_where_the_stream_is_waited_for() {
    let Some(rt) = runtime("what_a_kernel_must_not_do_is_said_where_the_stream_is_waited_for") else { return };
    let (Case { stream, x, y }, (_, function)) = (Case::new(&rt), rt.load());
    rt.ok(rt.launch(function, (x, y), 4, stream));
    let answer = rt.wait(stream);
    assert_eq!(answer, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
    rt.refused(answer, "kernel `add_one`");
    // It is said once.
    rt.ok(rt.wait(stream));
}

#[test]
fn functions_of_the_host_run_in_order_and_call_nothing() {
    let Some(rt) = runtime("functions_of_the_host_run_in_order_and_call_nothing") else { return };
    struct Data {
        acl: &'static Acl,
        x: *mut c_void,
        answer: aclError,
    }
    unsafe extern "C" fn double(data: *mut c_void) {
        let data = unsafe { &mut *data.cast::<Data>() };
        unsafe { *data.x.cast::<f32>() *= 2.0 };
        data.answer = unsafe { (data.acl.aclrtSynchronizeDevice)() };
    }
    let Case { stream, x, y } = Case::new(&rt);
    let mut data = Data { acl: rt.acl, x, answer: ACL_SUCCESS };
    let call = rt.acl.aclrtLaunchHostFunc.expect("the newest version has it");
    rt.ok(unsafe { call(stream, Some(double), std::ptr::from_mut(&mut data).cast()) });
    rt.ok(rt.copy(y, x, 3, stream));
    assert_eq!(rt.read(x, 1), [1.0]);
    rt.ok(rt.wait(stream));
    assert_eq!(rt.read(y, 3), [2.0, 2.0, 3.0]);
    rt.refused(data.answer, "may not call this");
}
