//! What runs when, and what is refused of memory, contexts and events.

use super::*;

#[test]
fn nothing_runs_before_somebody_waits() {
    let Some(rt) = runtime("nothing_runs_before_somebody_waits") else { return };
    let (stream, x) = (rt.stream(), rt.numbers(&[1.0, 2.0]));
    rt.ok(unsafe { (rt.acl.aclrtMemsetAsync)(x, 8, 0, 8, stream) });
    // A copy that waits waits for no stream.
    assert_eq!(rt.read(x, 2), [1.0, 2.0]);
    let mut status = 7;
    rt.ok(unsafe { (rt.acl.aclrtStreamQuery)(stream, &mut status) });
    assert_eq!(status, ACL_STREAM_STATUS_NOT_READY);
    rt.ok(rt.wait(stream));
    assert_eq!(rt.read(x, 2), [0.0, 0.0]);
    rt.ok(unsafe { (rt.acl.aclrtStreamQuery)(stream, &mut status) });
    assert_eq!(status, ACL_STREAM_STATUS_COMPLETE);
    rt.ok(unsafe { (rt.acl.aclrtDestroyStream)(stream) });
    rt.ok(unsafe { (rt.acl.aclrtFree)(x) });
}

#[test]
fn streams_are_ordered_by_events_alone() {
    let Some(rt) = runtime("streams_are_ordered_by_events_alone") else { return };
    let (a, b) = (rt.stream(), rt.stream());
    let [x, y] = [[1.0, 2.0], [3.0, 4.0]].map(|numbers| rt.numbers(&numbers));
    rt.ok(unsafe { (rt.acl.aclrtMemsetAsync)(x, 8, 0, 8, a) });
    rt.ok(rt.copy(y, x, 2, b));
    rt.ok(rt.wait(b));
    assert_eq!(rt.read(y, 2), [1.0, 2.0], "the other stream has not set it");
    let event = rt.event(ACL_EVENT_SYNC);
    rt.refused(unsafe { (rt.acl.aclrtStreamWaitEvent)(b, event) }, "never recorded");
    rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(event, a) });
    rt.ok(unsafe { (rt.acl.aclrtStreamWaitEvent)(b, event) });
    rt.ok(rt.copy(y, x, 2, b));
    rt.ok(rt.wait(b));
    assert_eq!(rt.read(y, 2), [0.0, 0.0]);
    for stream in [a, b] {
        rt.ok(unsafe { (rt.acl.aclrtDestroyStream)(stream) });
    }
    rt.ok(unsafe { (rt.acl.aclrtDestroyEvent)(event) });
}

#[test]
fn events_know_their_time_if_they_were_made_so() {
    let Some(rt) = runtime("events_know_their_time_if_they_were_made_so") else { return };
    let (stream, x, mut ms) = (rt.stream(), rt.numbers(&[1.0]), 0.0);
    let [begin, end] = [ACL_EVENT_TIME_LINE; 2].map(|flag| rt.event(flag));
    let untimed = rt.event(ACL_EVENT_SYNC);
    for event in [begin, untimed] {
        rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(event, stream) });
    }
    rt.ok(unsafe { (rt.acl.aclrtMemsetAsync)(x, 4, 0, 4, stream) });
    rt.ok(unsafe { (rt.acl.aclrtRecordEvent)(end, stream) });
    rt.refused(unsafe { (rt.acl.aclrtEventElapsedTime)(&mut ms, begin, end) }, "has not come");
    rt.refused(unsafe { (rt.acl.aclrtDestroyEvent)(end) }, "has not come");
    rt.ok(unsafe { (rt.acl.aclrtSynchronizeEvent)(end) });
    rt.ok(unsafe { (rt.acl.aclrtEventElapsedTime)(&mut ms, begin, end) });
    assert!(ms > 0.0);
    rt.refused(unsafe { (rt.acl.aclrtEventElapsedTime)(&mut ms, untimed, end) }, "ACL_EVENT_TIME_LINE");
}

#[test]
fn memory_has_bounds_and_outlives_work() {
    let Some(rt) = runtime("memory_has_bounds_and_outlives_work") else { return };
    let (stream, x) = (rt.stream(), rt.numbers(&[1.0, 2.0]));
    let mut host = [0f32; 4];
    let host_at = host.as_mut_ptr().cast::<c_void>();
    let copy = |to, room, from, count, kind| unsafe { (rt.acl.aclrtMemcpy)(to, room, from, count, kind) };
    rt.refused(copy(host_at, 16, x, 16, ACL_MEMCPY_DEVICE_TO_HOST), "its memory has 8");
    rt.refused(copy(host_at, 4, x, 8, ACL_MEMCPY_DEVICE_TO_HOST), "do not go into 4");
    rt.refused(copy(host_at, 8, host_at, 8, ACL_MEMCPY_DEVICE_TO_HOST), "no memory of the device");
    rt.refused(copy(x, 8, x, 8, ACL_MEMCPY_HOST_TO_DEVICE), "no memory of the host");
    rt.ok(unsafe { (rt.acl.aclrtMemsetAsync)(x, 8, 0, 8, stream) });
    rt.refused(unsafe { (rt.acl.aclrtFree)(x) }, "is still to run");
    rt.ok(rt.wait(stream));
    rt.ok(unsafe { (rt.acl.aclrtFree)(x) });
    rt.refused(unsafe { (rt.acl.aclrtFree)(x) }, "is no memory");
    let mut at = null_mut();
    rt.refused(unsafe { (rt.acl.aclrtMalloc)(&mut at, usize::MAX / 2, ACL_MEM_MALLOC_HUGE_FIRST) }, "there are no");
    assert_eq!(rt.said(), "", "what was said is said once");
}

#[test]
fn threads_have_contexts_and_streams_belong_to_them() {
    let Some(rt) = runtime("threads_have_contexts_and_streams_belong_to_them") else { return };
    let stream = rt.stream() as usize;
    let (said, acl) = (|| rt.said(), rt.acl);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| unsafe {
            let mut at = null_mut();
            let answer = (acl.aclrtMalloc)(&mut at, 4, ACL_MEM_MALLOC_HUGE_FIRST);
            assert_eq!(answer, ACL_ERROR_RT_CONTEXT_NULL);
            let (mut context, stream) = (null_mut(), stream as aclrtStream);
            assert_eq!((acl.aclrtCreateContext)(&mut context, 0), ACL_SUCCESS);
            assert_eq!((acl.aclrtSynchronizeStream)(stream), ACL_ERROR_RT_STREAM_CONTEXT);
            assert_eq!((acl.aclrtDestroyContext)(context), ACL_SUCCESS);
        });
        other.join().expect("nothing failed there");
    });
    assert_eq!(said(), "", "what went wrong there is not said here");
    rt.refused(unsafe { (rt.acl.aclrtSetDevice)(1) }, "no device 1");
    rt.refused(unsafe { (rt.acl.aclInit)(std::ptr::null()) }, "called before");
}
