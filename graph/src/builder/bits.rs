//! Elements read as another type of as many bits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Builder, Built};
use crate::{DType, NanBits, Op, Prim, Value, num};

impl Builder {
    /// The same bits as another dtype; no node if the dtype is the same. Of a NaN they are its own if all that made the
    /// value here moves elements, and those of the canonical one else.
    ///
    /// What is moved as floats between two readings of bits is moved as bits: a cache of bytes that is seen as FP8 where
    /// rows are written into it keeps all other bytes as they are.
    ///
    /// # Errors
    /// A dtype of another width.
    pub fn bitcast(&self, x: Value, to: DType) -> Built {
        self.state.borrow().knows("bitcast", x)?;
        let from = self.dtype(x);
        if from == to {
            return Ok(x);
        }
        if num::has_nans(from) && to.is_int() && self.was_bits(x, to) {
            return self.moved_as_bits(x, to, &mut BTreeMap::new());
        }
        let kept = num::has_nans(from) && self.is_moved(x);
        self.prim(Prim::Bitcast { to, nan: if kept { NanBits::Kept } else { NanBits::One } }, &[x])
    }

    /// Whether some elements of a value are bits of that dtype, read as another one and then only moved.
    fn was_bits(&self, value: Value, dtype: DType) -> bool {
        let (mut open, mut seen) = (vec![value], BTreeSet::new());
        while let Some(value) = open.pop() {
            let Some((op, operands)) = self.definition(value).filter(|_| seen.insert(value)) else { continue };
            if matches!(op, Op::Prim(Prim::Bitcast { .. })) && self.dtype(operands[0]) == dtype {
                return true;
            }
            open.extend(self.moved(value, &op, &operands).into_iter().map(|i| operands[i]));
        }
        false
    }

    /// A value's bits: of what it is moved from, moved likewise.
    fn moved_as_bits(&self, value: Value, to: DType, known: &mut BTreeMap<Value, Value>) -> Built {
        if let Some(&bits) = known.get(&value) {
            return Ok(bits);
        }
        let bits = match self.definition(value).filter(|_| self.was_bits(value, to)) {
            Some((Op::Prim(Prim::Bitcast { .. }), of)) if self.dtype(of[0]) == to => of[0],
            Some((op, mut operands)) => {
                for i in self.moved(value, &op, &operands) {
                    operands[i] = self.moved_as_bits(operands[i], to, known)?;
                }
                self.op(op, &operands)?[0]
            }
            None => self.bitcast(value, to)?,
        };
        known.insert(value, bits);
        Ok(bits)
    }

    /// Which operands a value's elements are those of, if its op only moves them: all of its dtype.
    fn moved(&self, value: Value, op: &Op, operands: &[Value]) -> Vec<usize> {
        let moves = matches!(op, Op::Prim(prim) if prim.moves() && !matches!(prim, Prim::Opaque { .. }));
        let of = |i: &usize| moves && self.dtype(operands[*i]) == self.dtype(value);
        (0..operands.len()).filter(of).collect()
    }

    /// Whether every float that a value depends on, back to inputs, integers and constants, is moved and not computed.
    fn is_moved(&self, value: Value) -> bool {
        let (mut open, mut seen) = (vec![value], BTreeSet::new());
        while let Some(value) = open.pop() {
            if !self.dtype(value).is_float() || !seen.insert(value) {
                continue;
            }
            let moved = self.look(value, |op, operands| {
                let moves = matches!(op, Op::Prim(prim) if prim.moves());
                let from_outside = matches!(op, Op::Prim(Prim::Opaque { .. }));
                moves.then(|| if from_outside { Vec::new() } else { operands.to_vec() })
            });
            match moved {
                None => {}
                Some(Some(operands)) => open.extend(operands),
                Some(None) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType::{BF16, F8E4M3, F32, I64, U8};
    use crate::interp::{Symbols, run};
    use crate::{Dim, ReduceOp, Rounding, ScalarFn, Tensor, TensorType};

    #[test]
    fn bytes_beside_written_rows_stay_as_they_are() {
        let b = Builder::new("g");
        let ty = |dtype, shape: &[i64]| TensorType::new(dtype, shape.iter().map(|&n| Dim::constant(n)));
        let cache = b.input("cache", ty(U8, &[3, 2]));
        let (x, i) = (b.input("x", ty(F32, &[1, 2])), b.input("i", ty(I64, &[1])));
        let seen = b.bitcast(cache, F8E4M3).expect("of 8 bits");
        let rows =
            b.prim(Prim::Cast { to: F8E4M3, round: Rounding::NearestEven, saturate: false }, &[x]).expect("types");
        let written = b.prim(Prim::Scatter { axis: 0 }, &[seen, i, rows]).expect("types");
        let out = b.bitcast(written, U8).expect("of 8 bits");
        b.output(out);
        let graph = b.finish();
        // NaNs of both signs stay; that of a row that is computed is the canonical one.
        let bytes = |codes: &[i64]| Tensor::from_i64(U8, &[3, 2], codes.to_vec()).expect("fits");
        let x = Tensor::from_f64(F32, &[1, 2], vec![-f64::NAN, 1.0]).expect("fits");
        let inputs = [bytes(&[255, 127, 1, 2, 3, 4]), x, Tensor::from_i64(I64, &[1], vec![1]).expect("fits")];
        let results = run(&graph, &inputs, &Symbols::new()).expect("runs");
        assert_eq!(results, [bytes(&[255, 127, 127, 56, 3, 4])], "{graph}");
        assert_eq!(graph.nodes().iter().filter(|node| node.op.name() == "bitcast").count(), 2, "{graph}");
    }

    #[test]
    fn a_nan_keeps_its_bits_where_elements_are_moved_alone() {
        use crate::DType::{F8E8M0, I32};
        type Make = fn(&Builder, Value) -> Built;
        let read = |make: Make| {
            let b = Builder::new("g");
            let x = b.input("x", TensorType::new(F32, [4.into(), 2.into()]));
            let made = make(&b, x).expect("types");
            let bits = b.bitcast(made, if b.dtype(made).bits() == 8 { U8 } else { I32 }).expect("types");
            match b.definition(bits) {
                Some((Op::Prim(Prim::Bitcast { nan, .. }), _)) => nan,
                // They have not been elements of another type but in between.
                Some((Op::Prim(Prim::Map(ScalarFn::Not)), _)) => NanBits::Kept,
                other => panic!("{other:?}"),
            }
        };
        let moved: [Make; 5] = [
            |_, x| Ok(x),
            |b, x| {
                b.cat(
                    &[
                        b.reshape(x, vec![2.into(), 4.into()])?,
                        b.input("y", TensorType::new(F32, [1.into(), 4.into()])),
                    ],
                    0,
                )
            },
            // What chooses and what counts is no part of what is moved.
            |b, x| {
                b.map(
                    ScalarFn::Select,
                    &[b.map(ScalarFn::Lt, &[b.map(ScalarFn::Abs, &[x])?, x])?, x, b.float(F32, 0.0)?],
                )
            },
            |b, x| b.bitcast(b.map(ScalarFn::Not, &[b.bitcast(x, I32)?])?, F32),
            |b, x| {
                let results = vec![TensorType::new(F32, [3.into()])];
                let sum = b.add(x, x)?;
                b.prim(Prim::Opaque { target: "host.op".to_owned(), attrs: Vec::new(), results }, &[sum])
            },
        ];
        for (i, make) in moved.into_iter().enumerate() {
            assert_eq!(read(make), NanBits::Kept, "{i}");
        }
        let computed: [Make; 4] = [
            |b, x| b.reshape(b.map(ScalarFn::Abs, &[x])?, vec![8.into()]),
            |b, x| b.cat(&[x, b.cast(b.cast(x, BF16)?, F32)?], 0),
            |b, x| b.reduce_last(ReduceOp::Max, x),
            // Its one NaN has one code.
            |b, x| b.bitcast(b.cast(x, F8E8M0)?, U8).and_then(|codes| b.bitcast(codes, F8E8M0)),
        ];
        for (i, make) in computed.into_iter().enumerate() {
            assert_eq!(read(make), NanBits::One, "{i}");
        }
    }
}
