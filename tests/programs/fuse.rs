//! `fuse`: what it says of ops that are not one kernel.

use fusewright::graph::{Builder, DType, Dim, NanRule, Op, Prim, ReduceOp, TensorType, TypeError, Value};
use fusewright::{TensorMut, TensorRef, fuse};

fn lanes(b: &Builder, name: &str) -> Value {
    b.input(name, TensorType::new(DType::F32, [3.into()]))
}

#[track_caller]
fn refused(build: impl FnOnce(&Builder) -> Result<Vec<Value>, TypeError>, expected: &str) {
    let error = fuse(build).expect_err("it is not one kernel");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn ops_that_are_not_one_kernel_are_named_with_the_reason() {
    let independent = "neither region reads what the other computes";
    refused(
        |b| {
            let (x, y) = (lanes(b, "x"), lanes(b, "y"));
            Ok(vec![b.mul(x, x)?, b.mul(y, y)?])
        },
        &format!(
            "the ops make 2 kernels, not one: kernel 1 (mul) ends before or after `mul`: {independent}; \
             kernel 2 (mul) ends before or after `mul`: {independent}"
        ),
    );
    let unchanged = "the ops make 0 kernels, not one: output 0 is input `x` as it came, once simplified";
    refused(|b| Ok(vec![lanes(b, "x")]), unchanged);
    refused(|b| Ok(vec![b.mul(lanes(b, "x"), b.float(DType::F32, 1.0)?)?]), unchanged);
    refused(
        |b| Ok(vec![b.float(DType::F32, 1.0)?]),
        "the ops make 0 kernels, not one: output 0 is a constant, once simplified",
    );
    refused(|_| Ok(vec![]), "there are no outputs, so there is nothing to compute");
}

#[test]
fn a_value_of_another_builder_is_an_error() {
    let other = Builder::new("other");
    let y = lanes(&other, "y");
    let foreign = other.mul(y, y).expect("types");
    let of = "is no value of `fused`: it is of another builder";
    refused(|b| Ok(vec![b.mul(lanes(b, "x"), foreign)?]), &format!("mul: operand %1 {of}"));
    let error = fuse(|_| Ok(vec![foreign])).expect_err("the output is of another graph");
    assert!(error.to_string().contains("output 0 is no value of the graph"), "{error}");
}

#[test]
fn an_extent_that_does_not_fit_is_named_by_its_axis() {
    let kernel = fuse(|b| {
        let x = b.input("x", TensorType::new(DType::F32, [b.symbol("rows", 0, None), 5.into()]));
        let y = b.input("y", TensorType::new(DType::F32, [b.symbol("rows", 0, None)]));
        let y = b.reshape(y, vec![b.symbol("rows", 0, None), 1.into()])?;
        Ok(vec![b.mul(x, y)?])
    })
    .expect("one kernel");
    let call = |x: &[usize], y: usize| {
        let (a, b, mut out) = ([0.0f32; 10], vec![0.0f32; y], [0.0f32; 10]);
        let bound = [y];
        let inputs = [TensorRef::new(&a, x), TensorRef::new(&b, &bound)];
        let result = kernel.call(&inputs, &mut [TensorMut::new(&mut out, &[2, 5])], 1);
        result.map_err(|e| e.to_string())
    };
    assert_eq!(call(&[2, 5], 2), Ok(()));
    let fixed = "input `x` is f32[rows, 5], got f32[5, 2]: axis 1 must be 5, not 2";
    assert_eq!(call(&[5, 2], 5), Err(fixed.to_owned()));
    let bound = "input `y` is f32[rows], got f32[3]: axis 0 must be rows = 2, not 3";
    assert_eq!(call(&[2, 5], 3), Err(bound.to_owned()));
}

/// That the slice lies inside its axis is what the range says.
#[test]
fn a_symbol_outside_its_range_is_refused() {
    let kernel = fuse(|b| {
        let x = b.input("x", TensorType::new(DType::F32, [b.symbol("n", 3, Some(4))]));
        let front = b.slice(x, 0, 0.into(), 3.into())?;
        Ok(vec![b.mul(front, front)?])
    })
    .expect("one kernel");
    let call = |x: &[f32]| {
        let (shape, mut out) = ([x.len()], [0.0f32; 3]);
        let result = kernel.call(&[TensorRef::new(x, &shape)], &mut [TensorMut::new(&mut out, &[3])], 1);
        result.map(|()| out).map_err(|e| e.to_string())
    };
    assert_eq!(call(&[1.0, 2.0, 3.0, 4.0]), Ok([1.0, 4.0, 9.0]));
    assert_eq!(call(&[1.0]), Err("symbol `n` is 1, by axis 0 of input `x`, outside 3 to 4".to_owned()));
    assert_eq!(call(&[1.0; 5]), Err("symbol `n` is 5, by axis 0 of input `x`, outside 3 to 4".to_owned()));
}

#[test]
fn an_index_out_of_range_stays_in_memory() {
    let kernel = fuse(|b| {
        let x = b.input("x", TensorType::new(DType::F32, [4.into(), 2.into()]));
        let i = b.input("i", TensorType::new(DType::I64, [b.symbol("rows", 0, None)]));
        let row = b.prim(Prim::Gather { axis: 0 }, &[x, i])?;
        Ok(vec![b.mul(row, row)?])
    })
    .expect("one kernel");
    let (x, mut out) = ([0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [0.0f32; 8]);
    let places = [i64::MIN, -1, 4, i64::MAX];
    let inputs = [TensorRef::new(&x, &[4, 2]), TensorRef::new(&places, &[4])];
    kernel.call(&inputs, &mut [TensorMut::new(&mut out, &[4, 2])], 1).expect("it runs");
    assert_eq!(out, [0.0, 1.0, 0.0, 1.0, 36.0, 49.0, 36.0, 49.0]);
}

#[test]
fn an_output_that_overwrites_an_input_is_one_tensor() {
    let rows = |b: &Builder| TensorType::new(DType::F32, [b.symbol("rows", 0, None), 3.into()]);
    let kernel = fuse(|b| {
        let (x, r) = (b.input("x", rows(b)), b.input("r", rows(b)));
        b.add_output(b.add(x, r)?, Some("r".to_owned()));
        Ok(vec![])
    })
    .expect("one kernel");
    assert_eq!((kernel.overwrites(), kernel.inputs().len()), (vec![(0, "r")], 1));
    let (x, mut r) = ([1.0f32, 2.0, 3.0], [10.0f32, 20.0, 30.0]);
    kernel.call(&[TensorRef::new(&x, &[1, 3])], &mut [TensorMut::new(&mut r, &[1, 3])], 1).expect("it fits");
    assert_eq!(r, [11.0, 22.0, 33.0]);
    let both = kernel.call(&[TensorRef::new(&x, &[1, 3]); 2], &mut [TensorMut::new(&mut r, &[1, 3])], 1);
    assert_eq!(both.expect_err("the residual is no input").to_string(), "`fused` takes 1 input, got 2; it is x");
    let short = kernel.call(&[TensorRef::new(&x, &[1, 3])], &mut [TensorMut::new(&mut [0.0f32; 6], &[2, 3])], 1);
    let message = short.expect_err("the residual has as many rows").to_string();
    assert_eq!(message, "input `r` is f32[rows, 3], got f32[2, 3]: axis 0 must be rows = 1, not 2");
}

#[test]
fn an_output_that_may_not_overwrite_its_input_is_apart() {
    let kernel = fuse(|b| {
        let r = b.input("r", TensorType::new(DType::F32, [3.into(), 3.into()]));
        let turned = b.op(Op::Prim(Prim::Permute { perm: vec![1, 0] }), &[r])?[0];
        b.add_output(b.add(turned, turned)?, Some("r".to_owned()));
        Ok(vec![])
    })
    .expect("one kernel");
    assert_eq!((kernel.overwrites().len(), kernel.inputs().len()), (0, 1));
    let why = "a row reads elements of `r` that other rows may overwrite";
    assert_eq!(kernel.apart(), [(0, why.to_owned())]);
}

/// Rows of results in wider memory: slices that begin anywhere, of odd and even length, and nothing else is written.
#[test]
fn results_may_be_slices_of_wider_tensors() {
    let lanes = 37;
    let kernel = fuse(|b| {
        let rows = b.symbol("rows", 0, None);
        let x = b.input("x", TensorType::new(DType::F32, [rows, lanes.into()]));
        let sum = b.prim(Prim::Reduce { op: ReduceOp::Add, axes: vec![1], nan: NanRule::Propagate }, &[x])?;
        Ok(vec![b.mul(x, sum)?, sum])
    })
    .expect("one kernel");
    let lanes = lanes as usize;
    for (rows, stride, first) in [(0, 40, 3), (1, 40, 3), (1, 37, 0), (5, 37, 1), (257, 38, 1), (257, 64, 5)] {
        let x: Vec<f32> = (0..rows * lanes).map(|i| i as f32 * 0.37 - 9.0).collect();
        let shape = [rows, lanes];
        let inputs = [TensorRef::new(&x, &shape)];
        let (mut tight, mut sums) = (vec![0f32; rows * lanes], vec![0f32; rows]);
        let column = [rows, 1];
        let mut outputs = [TensorMut::new(&mut tight, &shape), TensorMut::new(&mut sums, &column)];
        kernel.call(&inputs, &mut outputs, 1).expect("contiguous");
        // The memory ends with the last element.
        let end = first + if rows == 0 { 0 } else { (rows - 1) * stride + lanes };
        let (mut wide, mut apart) = (vec![-1f32; end], vec![-1f32; rows * 3]);
        let mut outputs = [
            TensorMut::new(&mut wide[first..], &shape).with_stride(stride),
            TensorMut::new(&mut apart, &column).with_stride(3),
        ];
        kernel.call(&inputs, &mut outputs, 2).expect("apart");
        for (i, &got) in wide.iter().enumerate() {
            let place = i.checked_sub(first).map(|at| (at / stride, at % stride)).filter(|at| at.1 < lanes);
            let want = place.map_or(-1.0, |(row, lane)| tight[row * lanes + lane]);
            assert_eq!(got.to_bits(), want.to_bits(), "{rows} rows {stride} apart: element {i}");
        }
        for (i, &got) in apart.iter().enumerate() {
            let want = if i % 3 == 0 { sums[i / 3] } else { -1.0 };
            assert_eq!(got.to_bits(), want.to_bits(), "{rows} rows: sum {i}");
        }
    }
}

/// Packed rows in wider memory: every piece goes to its place in each row, and nothing else is written.
#[test]
fn packed_results_may_be_slices_of_wider_tensors() {
    let (heads, lanes) = (3, 8);
    let packed = (heads + 1) * lanes;
    let kernel = fuse(|b| {
        let rows = b.symbol("rows", 0, None);
        let x = b.input("x", TensorType::new(DType::F32, [rows.clone(), Dim::constant(packed)]));
        let part =
            |axis, start, end| Prim::Slice { axis, start: Dim::constant(start), end: Dim::constant(end), step: 1 };
        let split = b.prim(part(1, 0, heads * lanes), &[x])?;
        let split = b.reshape(split, vec![rows.clone(), heads.into(), lanes.into()])?;
        let (low, high) = (b.prim(part(2, 0, lanes / 2), &[split])?, b.prim(part(2, lanes / 2, lanes), &[split])?);
        let sum = b.prim(Prim::Reduce { op: ReduceOp::Add, axes: vec![2], nan: NanRule::Propagate }, &[split])?;
        let (low, high) = (b.mul(low, sum)?, b.mul(high, sum)?);
        let turned = b.prim(Prim::Cat { axis: 2 }, &[high, low])?;
        let turned = b.reshape(turned, vec![rows, (heads * lanes).into()])?;
        let kept = b.prim(part(1, heads * lanes, packed), &[x])?;
        Ok(vec![b.prim(Prim::Cat { axis: 1 }, &[turned, kept])?])
    })
    .expect("one kernel");
    let packed = packed as usize;
    for (rows, stride, first) in [(0, 40, 3), (1, 40, 3), (5, 32, 1), (65, 33, 1), (65, 64, 5)] {
        let x: Vec<f32> = (0..rows * packed).map(|i| i as f32 * 0.37 - 9.0).collect();
        let shape = [rows, packed];
        let inputs = [TensorRef::new(&x, &shape)];
        let mut tight = vec![0f32; rows * packed];
        kernel.call(&inputs, &mut [TensorMut::new(&mut tight, &shape)], 1).expect("contiguous");
        for (row, got) in tight.chunks(packed).enumerate() {
            let given = &x[row * packed..];
            let sum: f32 = given[..8].iter().sum();
            assert!((got[0] - given[4] * sum).abs() <= 1e-4 * got[0].abs(), "row {row}: {} of {given:?}", got[0]);
            assert_eq!(got[24..], given[24..packed], "row {row}");
        }
        let end = first + if rows == 0 { 0 } else { (rows - 1) * stride + packed };
        let mut wide = vec![-1f32; end];
        let output = TensorMut::new(&mut wide[first..], &shape).with_stride(stride);
        kernel.call(&inputs, &mut [output], 2).expect("apart");
        for (i, &got) in wide.iter().enumerate() {
            let place = i.checked_sub(first).map(|at| (at / stride, at % stride)).filter(|at| at.1 < packed);
            let want = place.map_or(-1.0, |(row, lane)| tight[row * packed + lane]);
            assert_eq!(got.to_bits(), want.to_bits(), "{rows} rows {stride} apart: element {i}");
        }
    }
}

#[test]
fn strides_that_do_not_fit_are_errors() {
    let kernel = fuse(|b| {
        let x = b.input("x", TensorType::new(DType::F32, [b.symbol("rows", 0, None), 3.into()]));
        Ok(vec![b.mul(x, x)?])
    })
    .expect("one kernel");
    let call = |stride: usize, elements: usize| {
        let (x, mut y) = ([1f32; 6], vec![0f32; elements]);
        let output = TensorMut::new(&mut y, &[2, 3]).with_stride(stride);
        kernel.call(&[TensorRef::new(&x, &[2, 3])], &mut [output], 1).map_err(|e| e.to_string())
    };
    assert_eq!(call(5, 8), Ok(()));
    assert_eq!(call(2, 8), Err("output 0 has rows of 3 elements, 2 apart".to_owned()));
    assert_eq!(call(5, 7), Err("output 0 is a tensor f32[2, 3], but has 28 bytes".to_owned()));
    // What is overwritten lies as the input does.
    let updates = fuse(|b| {
        let x = b.input("x", TensorType::new(DType::F32, [2.into(), 3.into()]));
        b.add_output(b.mul(x, x)?, Some("x".to_owned()));
        Ok(Vec::new())
    })
    .expect("one kernel");
    let mut x = [1f32; 8];
    let error = updates.call(&[], &mut [TensorMut::new(&mut x, &[2, 3]).with_stride(5)], 1).expect_err("contiguous");
    assert!(
        error.to_string().contains("output 0 is given with a stride, but this kernel writes it contiguous"),
        "{error}"
    );
}
