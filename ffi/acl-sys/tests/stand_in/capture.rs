//! Captures and their rules.

use super::*;

const GLOBAL: aclmdlRICaptureMode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
const LOCAL: aclmdlRICaptureMode = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: aclmdlRICaptureMode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

impl Runtime {
    fn begin(&self, stream: aclrtStream, mode: aclmdlRICaptureMode) {
        self.ok(unsafe { (self.acl.aclmdlRICaptureBegin)(stream, mode) });
    }

    fn end(&self, stream: aclrtStream) -> Result<aclmdlRI, aclError> {
        let mut model = null_mut();
        match unsafe { (self.acl.aclmdlRICaptureEnd)(stream, &mut model) } {
            ACL_SUCCESS => Ok(model),
            answer => {
                assert!(model.is_null());
                Err(answer)
            }
        }
    }

    /// The capture ends without a model, for a reason that has these words.
    fn broken(&self, stream: aclrtStream, words: &str) {
        let answer = self.end(stream).expect_err("the capture is invalid");
        self.refused(answer, words);
    }

    fn execute(&self, model: aclmdlRI, stream: aclrtStream) -> aclError {
        unsafe { (self.acl.aclmdlRIExecuteAsync)(model, stream) }
    }
}

#[test]
fn what_is_captured_runs_when_it_is_executed_as_often_as_that_is() {
    let Some(rt) = runtime("what_is_captured_runs_when_it_is_executed_as_often_as_that_is") else { return };
    let (stream, (_, function), x) = (rt.stream(), rt.load(), rt.numbers(&[1.0, 2.0]));
    let y = rt.numbers(&[0.0; 2]);
    rt.begin(stream, GLOBAL);
    rt.ok(rt.launch(function, (x, y), 2, stream));
    rt.ok(rt.copy(x, y, 2, stream));
    let (mut status, mut model) = (0, null_mut());
    rt.ok(unsafe { (rt.acl.aclmdlRICaptureGetInfo)(stream, &mut status, &mut model) });
    assert_eq!(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    let model = rt.end(stream).unwrap_or_else(|_| panic!("{}", rt.said()));
    rt.ok(rt.wait(stream));
    assert_eq!(rt.read(x, 2), [1.0, 2.0], "a capture runs nothing");
    rt.ok(rt.execute(model, stream));
    rt.ok(rt.execute(model, stream));
    rt.refused(unsafe { (rt.acl.aclmdlRIDestroy)(model) }, "still to execute");
    rt.refused(unsafe { (rt.acl.aclrtFree)(y) }, "is still to run");
    assert_eq!(rt.read(x, 2), [1.0, 2.0]);
    rt.ok(rt.wait(stream));
    assert_eq!(rt.read(x, 2), [3.0, 4.0]);
    rt.ok(unsafe { (rt.acl.aclrtFree)(y) });
    rt.refused(rt.execute(model, stream), "uses what is gone");
    rt.ok(unsafe { (rt.acl.aclmdlRIDestroy)(model) });
    rt.refused(rt.execute(model, stream), "is no model");
}

#[test]
fn nothing_is_waited_for_while_a_stream_is_captured() {
    let Some(rt) = runtime("nothing_is_waited_for_while_a_stream_is_captured") else { return };
    let (stream, event) = (rt.stream(), rt.event(ACL_EVENT_SYNC));
    let mut status = 0;
    rt.begin(stream, RELAXED);
    rt.refused(rt.wait(stream), "is captured");
    rt.broken(stream, "waiting for it meanwhile");
    rt.begin(stream, RELAXED);
    rt.refused(unsafe { (rt.acl.aclrtStreamQuery)(stream, &mut status) }, "is captured");
    rt.broken(stream, "asking for its state");
    rt.begin(stream, RELAXED);
    rt.refused(unsafe { (rt.acl.aclrtSynchronizeDevice)() }, "while stream");
    rt.broken(stream, "waiting for the device");
    rt.begin(stream, RELAXED);
    rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(event, stream) });
    rt.refused(unsafe { (rt.acl.aclrtSynchronizeEvent)(event) }, "being captured");
    rt.broken(stream, "waiting for an event of the capture");
    rt.begin(stream, RELAXED);
    rt.refused(unsafe { (rt.acl.aclmdlRICaptureBegin)(stream, RELAXED) }, "captured already");
    rt.refused(unsafe { (rt.acl.aclrtDestroyStream)(stream) }, "being captured");
    rt.end(stream).unwrap_or_else(|_| panic!("{}", rt.said()));
    rt.refused(unsafe { (rt.acl.aclmdlRICaptureBegin)(null_mut(), RELAXED) }, "the default stream");
    assert!(rt.end(stream).is_err(), "no capture began");
}

#[test]
fn copies_that_wait_are_forbidden_as_the_mode_says() {
    let Some(rt) = runtime("copies_that_wait_are_forbidden_as_the_mode_says") else { return };
    let (stream, x) = (rt.stream(), rt.numbers(&[1.0]));
    let (acl, at) = (rt.acl, x as usize);
    let copy = move || {
        let mut number = 0f32;
        let to = std::ptr::from_mut(&mut number).cast();
        unsafe { (acl.aclrtMemcpy)(to, 4, at as *const c_void, 4, ACL_MEMCPY_DEVICE_TO_HOST) }
    };
    let elsewhere = |before: Option<aclmdlRICaptureMode>| {
        std::thread::spawn(move || unsafe {
            assert_eq!((acl.aclrtSetDevice)(0), ACL_SUCCESS);
            if let Some(mut mode) = before {
                let exchange = acl.aclmdlRICaptureThreadExchangeMode.expect("the newest version has it");
                assert_eq!(exchange(&mut mode), ACL_SUCCESS);
            }
            copy() == ACL_SUCCESS
        })
        .join()
        .expect("nothing failed there")
    };
    for (mode, here, there) in [(GLOBAL, false, false), (LOCAL, false, true), (RELAXED, true, true)] {
        rt.begin(stream, mode);
        assert_eq!(elsewhere(None), there, "mode {mode}, another thread");
        // Of a capture that another thread has made invalid nothing more is to be seen.
        if there {
            rt.end(stream).unwrap_or_else(|_| panic!("{}", rt.said()));
        } else {
            rt.broken(stream, "a copy that waits");
        }
        rt.begin(stream, mode);
        assert_eq!(copy() == ACL_SUCCESS, here, "mode {mode}");
        assert_eq!(rt.end(stream).is_ok(), here);
    }
    rt.begin(stream, GLOBAL);
    assert!(elsewhere(Some(LOCAL)) && elsewhere(Some(RELAXED)), "threads may choose otherwise");
    rt.end(stream).unwrap_or_else(|_| panic!("{}", rt.said()));
}

#[test]
fn memory_of_the_host_in_a_capture_is_locked() {
    let Some(rt) = runtime("memory_of_the_host_in_a_capture_is_locked") else { return };
    let (stream, x, mut number) = (rt.stream(), rt.numbers(&[1.0]), 2f32);
    let copy =
        |from: *const c_void| unsafe { (rt.acl.aclrtMemcpyAsync)(x, 4, from, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream) };
    rt.begin(stream, RELAXED);
    rt.refused(copy(std::ptr::from_mut(&mut number).cast()), "locked");
    let mut locked = null_mut();
    rt.ok(unsafe { (rt.acl.aclrtMallocHost)(&mut locked, 4) });
    rt.ok(copy(locked));
    let model = rt.end(stream).unwrap_or_else(|_| panic!("{}", rt.said()));
    // What is copied is what lies there when the model runs.
    unsafe { *locked.cast::<f32>() = 5.0 };
    rt.ok(rt.execute(model, stream));
    rt.ok(rt.wait(stream));
    assert_eq!(rt.read(x, 1), [5.0]);
}

#[test]
fn streams_that_wait_for_what_is_captured_are_captured_and_lead_back() {
    let Some(rt) = runtime("streams_that_wait_for_what_is_captured_are_captured_and_lead_back") else { return };
    let (a, b, (_, function)) = (rt.stream(), rt.stream(), rt.load());
    let [x, y, z] = [1.0, 0.0, 0.0].map(|number| rt.numbers(&[number]));
    let [out, back] = [ACL_EVENT_SYNC; 2].map(|flag| rt.event(flag));
    let fork = || {
        rt.begin(a, GLOBAL);
        rt.ok(rt.launch(function, (x, y), 1, a));
        rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(out, a) });
        rt.ok(unsafe { (rt.acl.aclrtStreamWaitEvent)(b, out) });
        rt.ok(rt.launch(function, (y, z), 1, b));
    };
    fork();
    rt.broken(a, "the first stream does not wait for");
    fork();
    rt.refused(rt.wait(b), "is captured");
    rt.broken(a, "waiting for it meanwhile");
    fork();
    rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(back, b) });
    rt.ok(unsafe { (rt.acl.aclrtStreamWaitEvent)(a, back) });
    rt.ok(rt.copy(x, z, 1, a));
    let model = rt.end(a).unwrap_or_else(|_| panic!("{}", rt.said()));
    rt.ok(rt.execute(model, b));
    rt.ok(rt.wait(b));
    assert_eq!(rt.read(x, 1), [3.0]);
    // What is recorded outside is not waited for inside.
    rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(out, a) });
    rt.begin(b, GLOBAL);
    rt.refused(unsafe { (rt.acl.aclrtStreamWaitEvent)(b, out) }, "recorded outside");
    rt.broken(b, "recorded outside");
}
