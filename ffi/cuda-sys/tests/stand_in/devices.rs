//! Kernels run on the device of their buffers and their stream, and nowhere else.

use fusewright_abi::PayloadKind;
use fusewright_runtime::cuda::{DeviceArg, Gpu, LaunchOptions};

use crate::load::{Count, DEVICES};
use crate::{add_one, artifact, gpu, loaded, read, started, words};

#[test]
fn a_kernel_runs_on_every_device_and_is_loaded_once_on_each() {
    let Some(driver) = started("a_kernel_runs_on_every_device_and_is_loaded_once_on_each") else { return };
    assert_eq!(Gpu::count(), DEVICES);
    let modules = || [0, 1, 2].map(|device| driver.count(device, Count::Modules));
    let launches = || [0, 1, 2].map(|device| driver.count(device, Count::Launches));
    let (before, launched) = (modules(), launches());
    let kernel = loaded(&gpu(1));
    assert_eq!(modules(), [before[0], before[1] + 1, before[2]], "it is loaded where that is asked for");
    for device in [0, 1, 2, 0] {
        let gpu = gpu(device);
        let stream = gpu.stream().expect("a stream");
        let (x, y) = (words(&gpu, &stream, &[1, 2, 3]), words(&gpu, &stream, &[0; 3]));
        add_one(&kernel, &stream, &x, &y).expect("launches");
        assert_eq!(read(&y, &stream), [2, 3, 4]);
        let options = LaunchOptions::default();
        let again = kernel.prepare(&[DeviceArg::In(&y), DeviceArg::Out(&x)], &[3], 3, options).expect("fits");
        again.enqueue(&stream).expect("launches");
        assert_eq!(read(&x, &stream), [3, 4, 5]);
    }
    assert_eq!(modules(), [before[0] + 1, before[1] + 1, before[2] + 1]);
    assert_eq!(launches(), [launched[0] + 4, launched[1] + 2, launched[2] + 2]);
    drop(kernel);
    assert_eq!((modules(), driver.wrong()), (before, String::new()));
}

#[test]
fn a_launch_does_not_enter_a_context_that_is_current() {
    let Some(driver) = started("a_launch_does_not_enter_a_context_that_is_current") else { return };
    let gpu = gpu(1);
    let (kernel, stream) = (loaded(&gpu), gpu.stream().expect("a stream"));
    let (x, y) = (words(&gpu, &stream, &[7]), words(&gpu, &stream, &[0]));
    let entered = || driver.count(1, Count::Entered);
    let before = entered();
    // Another device's is current, as in a thread that works on several.
    driver.within(0, || add_one(&kernel, &stream, &x, &y).expect("launches"));
    assert_eq!(entered(), before + 1);
    driver.within(1, || add_one(&kernel, &stream, &x, &y).expect("launches"));
    assert_eq!(entered(), before + 2, "once by the launch, and once by the test");
    assert_eq!(read(&y, &stream), [8]);
    drop((kernel, x, y));
    assert_eq!(driver.wrong(), "");
}

#[test]
fn what_lies_on_several_devices_is_refused_by_name() {
    let Some(driver) = started("what_lies_on_several_devices_is_refused_by_name") else { return };
    let (first, second) = (gpu(0), gpu(1));
    let (on_first, on_second) = (first.stream().expect("a stream"), second.stream().expect("a stream"));
    let kernel = loaded(&first);
    let (x, y) = (words(&first, &on_first, &[1]), words(&second, &on_second, &[1]));
    let said = add_one(&kernel, &on_first, &x, &y).expect_err("two devices").to_string();
    assert!(said.contains("`y` lies on cuda:1, and the launch is on cuda:0"), "{said}");
    let said = add_one(&kernel, &on_second, &x, &y).expect_err("two devices").to_string();
    assert!(said.contains("`x` lies on cuda:0, and the launch is on cuda:1"), "{said}");
    let args = [DeviceArg::In(&x), DeviceArg::Out(&y)];
    let said = kernel.prepare(&args, &[1], 1, LaunchOptions::default()).expect_err("two devices").to_string();
    assert!(said.contains("`y` lies on cuda:1"), "{said}");
    let z = words(&first, &on_first, &[1]);
    let args = [DeviceArg::In(&x), DeviceArg::Out(&z)];
    let fits = kernel.prepare(&args, &[1], 1, LaunchOptions::default()).expect("one device");
    let said = fits.enqueue(&on_second).expect_err("two devices").to_string();
    assert!(said.contains("the stream is of cuda:1"), "{said}");
    // A caller's stream that is said to be of another device than it is.
    let theirs = driver.stream(1);
    // SAFETY: the stream lives; that it is of another device is what is tested.
    let stream = unsafe { first.adopt_stream(theirs) };
    let said = add_one(&kernel, &stream, &x, &z).expect_err("two devices").to_string();
    assert!(said.contains("the stream is not of cuda:0"), "{said}");
    let said = Gpu::at(first.target(), DEVICES).expect_err("no such device").to_string();
    assert!(said.contains("no NVIDIA GPU of number 3") && said.contains("there are 3"), "{said}");
}

#[test]
fn what_was_assembled_for_one_kind_is_not_loaded_on_another() {
    let Some(driver) = started("what_was_assembled_for_one_kind_is_not_loaded_on_another") else { return };
    let newer = gpu(0);
    let kernel = newer.load(&artifact("sm_90", PayloadKind::Cubin)).expect("its device runs it");
    kernel.load_on(&gpu(1)).expect("a device of the same kind");
    let said = kernel.load_on(&gpu(2)).expect_err("an older device").to_string();
    assert!(said.contains("`cuda:sm_90`, which cuda:2 (stand-in 2) does not run"), "{said}");
    assert_eq!(driver.wrong(), "");
}
