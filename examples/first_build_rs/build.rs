//! Makes the kernels of this crate.

use fusewright::aot::BuildScript;
use fusewright::graph::{DType, ScalarFn, TensorType};

fn main() -> Result<(), fusewright::Error> {
    let mut script = BuildScript::new()?;
    // relu(x · w) for any number of rows of four lanes.
    script.kernel("scaled_relu", |b| {
        let rows = b.symbol("rows", 0, None);
        let x = b.input("x", TensorType::new(DType::F32, [rows, 4.into()]));
        let w = b.input("w", TensorType::new(DType::F32, [4.into()]));
        let product = b.mul(x, w)?;
        Ok(vec![b.map(ScalarFn::Max, &[product, b.float(DType::F32, 0.0)?])?])
    })?;
    script.finish()
}
