//! Launches on buffers of the moment are checked like those that are prepared.

use fusewright_runtime::cuda::{DeviceArg, LaunchOptions};

use crate::load::Count;
use crate::{gpu, loaded, read, started, words};

#[test]
fn what_does_not_fit_is_refused_and_not_launched() {
    let Some(driver) = started("what_does_not_fit_is_refused_and_not_launched") else { return };
    let gpu = gpu(0);
    let (kernel, stream) = (loaded(&gpu), gpu.stream().expect("a stream"));
    let (x, y) = (words(&gpu, &stream, &[1; 16]), words(&gpu, &stream, &[0; 16]));
    let part = |from, to| x.part(from..to).expect("a part");
    let (front, back, odd) = (part(0, 36), part(32, 64), part(4, 40));
    let launched = driver.count(0, Count::Launches);
    let refused = |args: &[DeviceArg<'_>], dims: &[i64], rows: usize, with: &str| {
        let options = LaunchOptions::default();
        let directly = kernel.enqueue(&stream, args, (dims, rows), options).expect_err(with).to_string();
        let prepared = kernel.prepare(args, dims, rows, options).expect_err(with).to_string();
        assert!(directly.contains(with) && directly == prepared, "{directly}; {prepared}");
    };
    let (read_x, write_y) = (DeviceArg::In(&x), DeviceArg::Out(&y));
    refused(std::slice::from_ref(&read_x), &[8], 8, "takes 2 buffers and 1 integers, got 1 and 1");
    refused(&[read_x.clone(), write_y.clone()], &[], 0, "takes 2 buffers and 1 integers, got 2 and 0");
    refused(&[read_x.clone(), write_y.clone()], &[8], 9, "has 8 rows, asked for 9");
    refused(&[read_x.clone(), write_y.clone()], &[17], 8, "`x` takes 68 bytes, the buffer has 64");
    refused(&[read_x.clone(), DeviceArg::In(&y)], &[8], 8, "`y` is written, but the buffer is read-only");
    refused(&[read_x.clone(), DeviceArg::Same(0)], &[8], 8, "`y` may not share the memory of parameter 0");
    refused(&[read_x.clone(), DeviceArg::Out(&x)], &[8], 8, "`x` and `y` share memory, and one is written");
    refused(&[DeviceArg::In(&front), DeviceArg::Out(&back)], &[8], 8, "`x` and `y` share memory");
    refused(&[DeviceArg::In(&odd), write_y.clone()], &[8], 8, "`x` is no multiple of 16 bytes away from 0");
    assert_eq!(driver.count(0, Count::Launches), launched);
    // The ends of parts may touch, and an argument may share the memory of one that says so.
    let first = part(0, 32);
    let options = LaunchOptions::default();
    kernel.enqueue(&stream, &[DeviceArg::In(&first), DeviceArg::Out(&back)], (&[8], 8), options).expect("fits");
    kernel.enqueue(&stream, &[DeviceArg::Same(1), DeviceArg::Out(&x)], (&[16], 16), options).expect("fits");
    assert_eq!(read(&x, &stream), [[2; 8], [3; 8]].concat());
    drop((kernel, x, y));
    drop((front, back, odd, first));
    assert_eq!(driver.wrong(), "");
}
