//! What this emitter has in vectors of four lanes.

use std::collections::BTreeMap;

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;

use super::reduce::vector_lanes;
use crate::backend::host::Forms;
use crate::kernel::{Order, Val};

/// Four lanes of a loop cost this much at most. Sixteen registers do not hold the constants of longer loops and what one stage
/// hands to the next. The number was measured on x86-64, with the matrix and with kernels of long rows.
const MOST_COST: u32 = 45;

/// The forms of 128-bit vectors.
#[derive(Default)]
pub(super) struct Vectors {
    /// The values of a segment that are looked up, and their arguments.
    pub looked_up: BTreeMap<Val, Val>,
}

impl Forms for Vectors {
    fn most_cost(&self) -> Option<u32> {
        Some(MOST_COST)
    }

    fn looked_up(&self, v: Val) -> Option<Val> {
        self.looked_up.get(&v).copied()
    }

    fn wide_lanes(&self) -> bool {
        false
    }

    fn map(&self, f: ScalarFn, dtype: DType) -> bool {
        let integer = matches!(f, ScalarFn::Div | ScalarFn::Rem | ScalarFn::Shl | ScalarFn::Shr) && dtype.is_int();
        !integer && dtype.bits() < 64 && dtype != DType::F64
    }

    fn cast(&self, from: DType, to: DType, saturate: bool, bounded: &dyn Fn() -> bool) -> bool {
        let narrow_float = |d: DType| d.is_float() && d != DType::F64;
        match (from.is_float(), to.is_float()) {
            (true, true) => narrow_float(from) && narrow_float(to),
            (true, false) if to == DType::Bool => true,
            (true, false) if saturate => to.bits() < 32 || to == DType::I32,
            (true, false) => from != DType::F64 && to.bits() <= 32 && bounded(),
            (false, true) => from.bits() < 32 || from == DType::I32,
            (false, false) => from.bits() <= 32 && to.bits() <= 32,
        }
    }

    fn reduction(&self, order: Order, dtype: DType) -> bool {
        vector_lanes(order, dtype).is_some()
    }
}
