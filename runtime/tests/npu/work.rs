//! Launches, graphs, events, copies, and what is refused.

use fusewright_runtime::ascend::{DeviceArg, HostFunction, Rtc};
use fusewright_runtime::{Arg, Device, RuntimeError};

use super::*;

#[test]
fn launches_graphs_and_events() {
    for (npu, mut stream, kernel) in kernels("launches_graphs_and_events") {
        let mut run = || -> Result<(), RuntimeError> {
            assert!(npu.is_simulated() && npu.cores() == 48 && npu.version().is_some() && npu.free_bytes()? > 0);
            let (x, y) = (npu.buffer(12)?, npu.buffer(12)?);
            x.upload(&stream, &bytes(&[1.0, 2.0, 3.0]))?;
            let apart = kernel.prepare(&[DeviceArg::In(&x), DeviceArg::Out(&y)], &[3], 3, true)?;
            apart.enqueue(&stream)?;
            assert_eq!(numbers(&y, &stream), [2.0, 3.0, 4.0]);
            let in_place = kernel.prepare(&[DeviceArg::Same(1), DeviceArg::Out(&y)], &[3], 2, true)?;
            let graph = stream.capture(|stream| {
                in_place.enqueue(stream)?;
                in_place.enqueue(stream)
            })?;
            assert_eq!((numbers(&y, &stream), graph.nodes()), (vec![2.0, 3.0, 4.0], 2), "a capture runs nothing");
            // The graph keeps what it uses.
            let kept = y.clone();
            drop((apart, in_place, y));
            let (begin, end) = (npu.event()?, npu.event()?);
            begin.record(&stream)?;
            graph.launch(&stream)?;
            graph.launch(&stream)?;
            end.record(&stream)?;
            assert!(begin.us_until(&end)? > 0.0);
            assert_eq!(numbers(&kept, &stream), [6.0, 7.0, 4.0]);
            kept.copy_from(&stream, &x)?;
            assert_eq!(numbers(&kept, &stream), [1.0, 2.0, 3.0]);
            kept.fill(&stream, 0)?;
            assert_eq!(numbers(&kept, &stream), [0.0; 3]);
            let refused = stream.capture(|stream| kept.upload(stream, &[0]));
            assert!(refused.is_err(), "a graph holds no copies from the host");
            // Memory that is given back during a capture is given back behind it.
            let other = stream.capture(|stream| {
                drop(npu.buffer(64)?);
                kept.fill(stream, 1)
            })?;
            drop((graph, other));
            stream.wait()
        };
        run().unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    for (npu, stream, kernel) in kernels("launches_that_do_not_fit_are_refused") {
        let buffer = |bytes| npu.buffer(bytes).unwrap_or_else(|e| panic!("{e}"));
        let (x, y, short) = (buffer(12), buffer(12), buffer(8));
        let refused = |args: &[DeviceArg<'_>], rows, said: &str| {
            let error = kernel.prepare(args, &[3], rows, true).expect_err("does not fit").to_string();
            assert!(error.contains(said), "{error}");
        };
        refused(&[DeviceArg::In(&x), DeviceArg::Out(&short)], 3, "takes 12 bytes, the buffer has 8");
        refused(&[DeviceArg::In(&x), DeviceArg::In(&y)], 3, "is written, but the buffer is read-only");
        refused(&[DeviceArg::In(&x), DeviceArg::Out(&x)], 3, "share memory");
        refused(&[DeviceArg::In(&x)], 3, "takes 2 buffers");
        refused(&[DeviceArg::In(&x), DeviceArg::Out(&y)], 4, "has 3 rows");
        let odd = buffer(16).part(2..14).expect("it has them");
        refused(&[DeviceArg::In(&odd), DeviceArg::Out(&y)], 3, "no multiple of 4 bytes");
        assert!(x.upload(&stream, &[0; 13]).is_err() && x.download(&stream, 8, &mut [0; 5]).is_err());
        let huge = npu.buffer(usize::MAX / 2).expect_err("nobody has that").to_string();
        assert!(huge.contains("too little device memory"), "{huge}");
    }
}

#[test]
fn memory_of_the_host_is_brought_to_the_device_and_back() {
    let Some(built) = built("memory_of_the_host_is_brought_to_the_device_and_back") else { return };
    for file in &built.runtimes {
        let npu = Npu::open(&target(), std::slice::from_ref(file), &chip()).unwrap_or_else(|e| panic!("{e}"));
        let module = Device::load(&npu, &artifact(&built.binary)).unwrap_or_else(|e| panic!("{e}"));
        let rows: Vec<f32> = (0..100).map(|row| row as f32).collect();
        let (x, mut y) = (bytes(&rows), vec![0; 400]);
        std::thread::scope(|scope| {
            // Threads have the context that they need.
            let launched = scope.spawn(|| module.launch(&mut [Arg::In(&x), Arg::Out(&mut y)], &[100], 99, 1));
            launched.join().expect("no panic").unwrap_or_else(|e| panic!("{e}"));
        });
        let expected: Vec<f32> = rows.iter().map(|row| if *row < 99.0 { row + 1.0 } else { 0.0 }).collect();
        assert_eq!(y, bytes(&expected));
        let mut wrong = artifact(&built.binary);
        wrong.payload.kind = PayloadKind::AscendC;
        let said = Device::load(&npu, &wrong).expect_err("it is a text").to_string();
        assert!(said.contains("it is Ascend C") && said.contains("libacl_rtc.so"), "{said}");
        wrong.payload.kind = PayloadKind::Ptx;
        let said = Device::load(&npu, &wrong).expect_err("it is for another device").to_string();
        assert!(said.contains("no binary of a compiler"), "{said}");
        let empty = KernelArtifact { name: "sub_one".to_owned(), ..artifact(&built.binary) };
        let said = Device::load(&npu, &empty).expect_err("it has another name").to_string();
        assert!(said.contains("kernel `sub_one`") && said.contains("SIMULATED"), "{said}");
    }
}

#[test]
fn what_a_kernel_must_not_do_is_a_fault_that_names_it() {
    for (npu, stream, kernel) in kernels("what_a_kernel_must_not_do_is_a_fault_that_names_it") {
        let (x, y) = (npu.buffer(12).expect("small"), npu.buffer(12).expect("small"));
        // Nobody has written what it reads.
        let launch = kernel.prepare(&[DeviceArg::In(&x), DeviceArg::Out(&y)], &[3], 3, true).expect("it fits");
        let error = launch.enqueue(&stream).and_then(|()| stream.wait()).expect_err("it reads what is not there");
        let said = error.to_string();
        assert!(
            said.contains("a kernel faulted") && said.contains("`add_one`") && said.contains("SIMULATED"),
            "{said}"
        );
    }
}

#[test]
fn devices_that_lack_something_are_refused() {
    let Some(built) = built("devices_that_lack_something_are_refused") else { return };
    let open = |file: &PathBuf, chip: &Chip| {
        Npu::open(&target(), std::slice::from_ref(file), chip).expect_err("it lacks something").to_string()
    };
    let newest = built.runtimes.last().expect("there are three");
    let more = Chip { vector_cores: 64, ..chip() };
    assert!(open(newest, &more).contains("48 vector cores, fewer than 64"), "{}", open(newest, &more));
    let larger = Chip { buffer_bytes: 300_000, ..chip() };
    assert!(open(newest, &larger).contains("bytes of unified buffer"), "{}", open(newest, &larger));
    let other = Chip { soc: "Ascend310P3".to_owned(), architecture: 2002, ..chip() };
    assert!(open(newest, &other).contains("architecture 2201, not 2002"), "{}", open(newest, &other));
    // The oldest says no more than its name.
    assert!(open(&built.runtimes[0], &other).contains("no number"), "{}", open(&built.runtimes[0], &other));
}

#[test]
fn functions_of_the_host_are_called_in_order_and_by_graphs() {
    let kernels = kernels("functions_of_the_host_are_called_in_order_and_by_graphs");
    for (version, (npu, mut stream, kernel)) in VERSIONS.into_iter().zip(kernels) {
        let mut run = || -> Result<(), RuntimeError> {
            let (x, y) = (npu.buffer(8)?, npu.buffer(8)?);
            x.upload(&stream, &bytes(&[1.0, 2.0]))?;
            let double = |operands: &[&[u8]], result: &mut [u8]| {
                let words = operands[0].as_chunks().0.iter().map(|&word| 2.0 * f32::from_le_bytes(word));
                result.copy_from_slice(&words.flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
            };
            let function = HostFunction::new(&npu, vec![x.clone()], y.clone(), Box::new(double))?;
            let add = kernel.prepare(&[DeviceArg::In(&y), DeviceArg::Out(&x)], &[2], 2, true)?;
            function.enqueue(&stream)?;
            add.enqueue(&stream)?;
            assert_eq!(numbers(&x, &stream), [3.0, 5.0]);
            let graph = stream.capture(|stream| {
                function.enqueue(stream)?;
                add.enqueue(stream)
            })?;
            drop((function, add));
            graph.launch(&stream)?;
            graph.launch(&stream)?;
            drop(graph);
            assert_eq!(numbers(&x, &stream), [15.0, 23.0]);
            assert!(HostFunction::new(&npu, vec![x.clone()], x.clone(), Box::new(|_, _| ())).is_err());
            assert!(version != Version::V8_1, "it has none");
            Ok(())
        };
        // The oldest version has no such function.
        match (version, run()) {
            (Version::V8_1, Err(error)) => assert!(error.to_string().contains("no aclrtLaunchHostFunc"), "{error}"),
            (_, ran) => ran.unwrap_or_else(|e| panic!("{e}")),
        }
    }
}

#[test]
fn sources_are_compiled_at_run_time() {
    let Some(built) = built("sources_are_compiled_at_run_time") else { return };
    let rtc = Rtc::open(std::slice::from_ref(&built.rtc)).unwrap_or_else(|e| panic!("{e}"));
    let options = ["--npu-arch=dav-2201"];
    let source =
        ADD_ONE.replace("#include \"kernel_operator.h\"", "#include \"kernel_operator.h\"\n#include \"one.h\"");
    let source = source.replace("1.0f, 1)", "ONE, 1)");
    let headers = [("one.h", "constexpr float ONE = 1.0f;\n")];
    let binary = rtc.compile("add_one", &source, &headers, &options).unwrap_or_else(|e| panic!("{e}"));
    let npu = Npu::open(&target(), &built.runtimes[2..], &chip()).unwrap_or_else(|e| panic!("{e}"));
    let module = Device::load(&npu, &artifact(&binary)).unwrap_or_else(|e| panic!("{e}"));
    let (x, mut y) = (bytes(&[4.0]), vec![0; 4]);
    module.launch(&mut [Arg::In(&x), Arg::Out(&mut y)], &[1], 1, 1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(y, bytes(&[5.0]));
    let said = rtc.compile("add_one", &source, &[], &options).expect_err("a header is missing");
    assert!(said.contains("ACL_ERROR_RTC_COMPILATION") && said.contains("one.h"), "{said}");
    let said = rtc.compile("add_one", &source, &headers, &[]).expect_err("no architecture");
    assert!(said.contains("ACL_ERROR_RTC_INVALID_OPTION"), "{said}");
}
