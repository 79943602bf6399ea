//! Compiled graphs, and their calls on addresses.

use std::sync::Arc;

use fusewright::graph::Dim;
use fusewright::{Chain, DType, Error, Fitted, Gpu, Options, Target};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::counters::{CALLS, LAUNCHES};
use crate::dlpack::{Borrowed, refuse_elsewhere};
use crate::errors::{CallError, raised};
use crate::memory;
use crate::region::Region;

/// Kernels that compute a graph, on one device. The code is freed when the objects of all devices are collected.
#[pyclass(frozen, weakref, module = "fusewright._native")]
#[derive(Debug)]
pub struct Kernel {
    chain: Arc<Chain>,
    /// What they run on, if not on the host.
    gpu: Option<Gpu>,
    launches: usize,
    /// The target and the options of its compilation.
    made: (Target, Options),
}

impl Kernel {
    /// Of a chain.
    pub fn new(chain: Chain, target: &Target, options: &Options) -> Self {
        let made = (target.clone(), options.clone());
        Kernel { launches: chain.launches(), gpu: chain.gpu().cloned(), chain: Arc::new(chain), made }
    }
}

#[pymethods]
impl Kernel {
    /// Names of the symbols, in the order of `sizes`.
    #[getter]
    fn symbols(&self) -> Vec<String> {
        self.chain.symbols().map(str::to_owned).collect()
    }

    /// Per output: dtype, extents as text, and the axes from the outermost in memory to the innermost.
    #[getter]
    fn outputs(&self) -> Vec<(String, Vec<String>, Vec<usize>)> {
        let outputs = self.chain.outputs().into_iter().map(|output| {
            let shape = output.shape.iter().map(ToString::to_string).collect();
            (output.dtype.name().to_owned(), shape, output.order.to_vec())
        });
        outputs.collect()
    }

    /// Per output: the number of the input whose memory it is, if kernels overwrite a part of that.
    #[getter]
    fn overwrites(&self) -> Vec<Option<usize>> {
        self.chain.outputs().iter().map(|output| output.overwrites).collect()
    }

    /// Per kernel: name, names of its ops, and the nodes of the framework's graph that it computes.
    #[getter]
    fn regions(&self) -> Vec<(String, Vec<String>, Vec<String>)> {
        let regions = self.chain.regions().iter();
        regions.map(|region| (region.name.clone(), region.ops.clone(), region.nodes.clone())).collect()
    }

    /// The kernels by themselves, in the order of `regions`.
    fn parts(&self) -> Vec<Region> {
        let (target, options) = &self.made;
        let regions = self.chain.regions().iter().zip(self.chain.bodies());
        regions.map(|(region, body)| Region::new(&region.name, body, target, options)).collect()
    }

    /// The values of the symbols for tensors of these dtypes and extents.
    ///
    /// Raises `CallError` for tensors that do not fit.
    fn bind(&self, given: Vec<(String, Vec<usize>)>) -> PyResult<Vec<i64>> {
        let dtype = |(i, (dtype, shape)): (usize, &(String, Vec<usize>))| {
            let dtype = dtype.parse::<DType>().map_err(|e| CallError::new_err(format!("input {i}: {e}")))?;
            Ok((dtype, shape.clone()))
        };
        let given = given.iter().enumerate().map(dtype).collect::<PyResult<Vec<_>>>()?;
        let given: Vec<(DType, &[usize])> = given.iter().map(|(dtype, shape)| (*dtype, shape.as_slice())).collect();
        self.chain.bind(&given).map_err(raised)
    }

    /// Extents of the outputs at values of the symbols, axes as in `outputs`.
    fn shapes(&self, sizes: Vec<i64>) -> PyResult<Vec<Vec<i64>>> {
        let symbols: Vec<&str> = self.chain.symbols().collect();
        let value = |name: &str| symbols.iter().position(|symbol| *symbol == name).and_then(|i| sizes.get(i).copied());
        let extent = |dim: &Dim| dim.eval(&value).map_err(|e| CallError::new_err(e.to_string()));
        self.chain.outputs().iter().map(|output| output.shape.iter().map(extent).collect()).collect()
    }

    /// Per kernel: bytes that it moves and bytes that its ops would move one by one, at the sizes of `bytes_at`; `None`
    /// beyond 2**63.
    #[getter]
    fn bytes(&self) -> Vec<(Option<u64>, Option<u64>)> {
        let regions = self.chain.explanation().regions.iter();
        regions.map(|region| (region.bytes_fused, region.bytes_unfused)).collect()
    }

    /// The values of the symbols at which `bytes` counts.
    #[getter]
    fn bytes_at(&self) -> Vec<(String, i64)> {
        self.chain.explanation().bytes_at.iter().map(|(name, value)| (name.clone(), *value)).collect()
    }

    /// Launches of one call.
    #[getter]
    fn launches(&self) -> usize {
        self.launches
    }

    /// The number of the GPU that they run on; `None` on the host.
    #[getter]
    fn device(&self) -> Option<usize> {
        self.gpu.as_ref().map(Gpu::ordinal)
    }

    /// The same kernels on the GPU of another number: the code is loaded there and not compiled again.
    ///
    /// Raises `UnavailableError` for a GPU that is not here or does not run the code, `CallError` for kernels of the host.
    fn on(&self, py: Python<'_>, device: usize) -> PyResult<Kernel> {
        let gpu = py.detach(|| self.chain.gpu_at(device)).map_err(raised)?;
        let options = Options { device, ..self.made.1.clone() };
        let made = (self.made.0.clone(), options);
        Ok(Kernel { chain: Arc::clone(&self.chain), gpu: Some(gpu), launches: self.launches, made })
    }

    /// Bytes of memory that a call on a device needs beside inputs and outputs.
    fn scratch(&self, sizes: Vec<i64>) -> PyResult<usize> {
        Ok(self.chain.fit(&sizes).map_err(raised)?.scratch())
    }

    /// Makes the best code there is now, rather than behind later calls.
    fn promote(&self, py: Python<'_>) {
        py.detach(|| self.chain.promote());
    }

    /// Runs the kernels, or enqueues them on a stream of the device that they are on.
    ///
    /// `sizes` are the values of `symbols`; `addresses` are those of the inputs and behind them of the outputs, each
    /// without gaps in the order of its axes. Nothing checks what lies there: callers own tensors of those sizes, and give an
    /// output that overwrites an input the address of that.
    #[pyo3(signature = (sizes, addresses, threads = 1, stream = 0, scratch = 0))]
    fn launch(
        &self,
        py: Python<'_>,
        sizes: &Bound<'_, PyTuple>,
        addresses: &Bound<'_, PyTuple>,
        threads: usize,
        stream: usize,
        scratch: usize,
    ) -> PyResult<()> {
        let sizes = sizes.iter_borrowed().map(|size| size.extract()).collect::<PyResult<Vec<i64>>>()?;
        let addresses = addresses.iter_borrowed().map(|at| at.extract()).collect::<PyResult<Vec<usize>>>()?;
        self.run(py, &sizes, &addresses, (threads, stream, scratch))
    }

    /// As `launch`, on tensors of any library that speaks DLPack, which are checked; results are written to `outputs`, whose
    /// axes are in the order that they have in memory.
    #[pyo3(signature = (inputs, outputs, threads = 1, stream = 0, scratch = 0))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        outputs: Vec<Bound<'py, PyAny>>,
        threads: usize,
        stream: usize,
        scratch: usize,
    ) -> PyResult<()> {
        let gpu = self.device();
        for (what, objects) in [("input", &inputs), ("output", &outputs)] {
            for (i, object) in objects.iter().enumerate() {
                refuse_elsewhere(object, gpu, || format!("{what} {i}"))?;
            }
        }
        let borrow = |what: &'static str| {
            move |(i, object): (usize, &Bound<'py, PyAny>)| Borrowed::of(object, gpu, stream, || format!("{what} {i}"))
        };
        let reads = inputs.iter().enumerate().map(borrow("input")).collect::<PyResult<Vec<_>>>()?;
        let writes = outputs.iter().enumerate().map(borrow("output")).collect::<PyResult<Vec<_>>>()?;
        let given: Vec<_> = reads.iter().map(|tensor| (tensor.dtype, tensor.shape.as_slice())).collect();
        let sizes = self.chain.bind(&given).map_err(raised)?;
        let fitted = self.chain.fit(&sizes).map_err(raised)?;
        let expected = self.chain.outputs();
        if writes.len() != expected.len() {
            return Err(CallError::new_err(format!("{} outputs, expected {}", writes.len(), expected.len())));
        }
        for (i, (tensor, expected)) in writes.iter().zip(&expected).enumerate() {
            let bytes =
                tensor.shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).map(|n| tensor.dtype.bytes_for(n));
            if tensor.dtype != expected.dtype || bytes != Some(fitted.outputs()[i]) {
                let (dtype, shape) = (tensor.dtype, &tensor.shape);
                return Err(CallError::new_err(format!(
                    "output {i} is {dtype}{shape:?}, expected {} of {} bytes",
                    expected.dtype,
                    fitted.outputs()[i]
                )));
            }
            if let Some(input) = expected.overwrites.filter(|&input| reads[input].address != tensor.address) {
                let message = format!("output {i} overwrites a part of input {input}, and is another tensor");
                return Err(CallError::new_err(message));
            }
        }
        let addresses: Vec<usize> = reads.iter().chain(&writes).map(|tensor| tensor.address).collect();
        self.run(py, &sizes, &addresses, (threads, stream, scratch))
    }

    /// What is in it, in a line.
    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.chain.regions().iter().map(|region| region.name.as_str()).collect();
        format!("Kernel({})", names.join(", "))
    }

    /// Kernels hold code of this process.
    fn __reduce__(&self) -> PyResult<()> {
        Err(CallError::new_err("kernels are code of this process; the program that they came from can be pickled"))
    }
}

impl Kernel {
    fn run(
        &self,
        py: Python<'_>,
        sizes: &[i64],
        addresses: &[usize],
        (threads, stream, scratch): (usize, usize, usize),
    ) -> PyResult<()> {
        let done = py.detach(|| {
            let fitted = self.chain.fit(sizes)?;
            let (inputs, outputs) = (fitted.inputs().len(), fitted.outputs().len());
            if addresses.len() != inputs + outputs {
                return Err(Error::Call(format!("{} tensors, expected {}", addresses.len(), inputs + outputs)));
            }
            match &self.gpu {
                None => self.on_host(&fitted, addresses.split_at(inputs), threads),
                Some(gpu) => self.on_gpu(gpu, &fitted, addresses.split_at(inputs), (stream, scratch)),
            }
        });
        done.map_err(raised)?;
        CALLS.add(1);
        LAUNCHES.add(self.launches);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn on_host(&self, fitted: &Fitted, (inputs, outputs): (&[usize], &[usize]), threads: usize) -> Result<(), Error> {
        // SAFETY: the caller of `launch` owns tensors of these sizes, which live through the call; outputs are new.
        let reads = inputs.iter().zip(fitted.inputs()).map(|(&at, &bytes)| unsafe { memory::read(at, bytes) });
        let reads: Vec<&[u8]> = reads.collect();
        // SAFETY: as above.
        let writes = outputs.iter().zip(fitted.outputs()).map(|(&at, &bytes)| unsafe { memory::written(at, bytes) });
        let mut writes: Vec<&mut [u8]> = writes.collect();
        self.chain.call(fitted, &reads, &mut writes, threads)
    }

    #[allow(unsafe_code)]
    fn on_gpu(
        &self,
        gpu: &Gpu,
        fitted: &Fitted,
        (inputs, outputs): (&[usize], &[usize]),
        (stream, scratch): (usize, usize),
    ) -> Result<(), Error> {
        // SAFETY: the caller of `launch` owns tensors of these sizes on the device; its allocator gives none of them away
        // before the stream has passed the launches.
        let adopt = |at: usize, bytes: usize| unsafe { gpu.adopt_memory(at as u64, bytes) };
        let all =
            |addresses: &[usize], bytes: &[usize]| addresses.iter().zip(bytes).map(|(&a, &b)| adopt(a, b)).collect();
        let (inputs, outputs): (Vec<_>, Vec<_>) = (all(inputs, fitted.inputs()), all(outputs, fitted.outputs()));
        // SAFETY: the stream is the framework's current one, of the primary context, which all of this process share.
        // Frameworks keep their streams, and callers with streams of their own those that they launch on.
        let stream = unsafe { gpu.adopt_stream(stream as *mut std::ffi::c_void) };
        self.chain.enqueue(fitted, &inputs, (&outputs, &adopt(scratch, fitted.scratch())), &stream)
    }
}
