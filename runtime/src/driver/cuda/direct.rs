//! Launches on buffers that are other ones every time, as an engine has them: checked like launches that are prepared, and
//! enqueued at once, without memory from the heap.

use std::ffi::c_void;
use std::sync::Arc;

use super::api::Failure;
use super::buffer::Memory;
use super::following::{Line, Used};
use super::kernel::{DeviceArg, Kernel, LaunchOptions, memory};
use super::launch::{launch, overlapping};
use super::loaded::Code;
use super::stream::{Kept, Stream};
use crate::driver::few::Few;
use crate::driver::signature::Span;
use crate::{RuntimeError, trace};

/// Most buffers and integers of a launch whose arguments lie on the stack; regions have fewer unless a caller raises their
/// limits.
const MOST: usize = 96;

impl Kernel {
    /// Checks a launch of rows `0..rows` on these buffers, as [`Kernel::prepare`] does, and runs it when the stream gets
    /// there, on the stream's device. Nothing is kept of it but by a graph that is being captured, and nothing else is allocated.
    ///
    /// # Errors
    /// As [`Kernel::prepare`]; buffers of another device than the stream's; a device that was lost.
    pub fn enqueue(
        &self,
        stream: &Stream,
        args: &[DeviceArg<'_>],
        (dims, rows): (&[i64], usize),
        options: LaunchOptions,
    ) -> Result<(), RuntimeError> {
        let loaded = &self.loaded;
        if args.len() + dims.len() > MOST {
            return self.prepare(args, dims, rows, options)?.enqueue(stream);
        }
        let mut spans = Few::<Span, MOST>::new();
        loaded.signature.check_each(args, dims, rows, |i, arg| {
            spans.push(arg.span(args));
            let Some((buffer, _)) = arg.buffer() else { return Ok(()) };
            self.check_place(i, buffer, stream.context())?;
            // What was noted of a launch that is refused after all does no harm.
            buffer.memory.used_by(stream);
            Ok(())
        })?;
        self.check_overlap(&spans)?;
        let code = loaded.on(stream.context())?;
        let failed = |failure: Failure| loaded.failed(code, stream, &failure);
        let _current = code.context.enter().map_err(failed)?;
        code.used_by(stream).map_err(failed)?;
        let shared = loaded.allow_shared(code, dims).map_err(failed)?;
        let mut values = Few::<u64, MOST>::new();
        values.extend(spans.iter().map(|span| span.begin));
        values.extend(dims.iter().map(|&dim| dim as u64));
        let _watched = trace::launch_on_device(&loaded.signature.name, rows);
        let mut attribute = (options.dependent && loaded.rule.dependent).then(overlapping);
        for range in loaded.ranges(dims, rows, loaded.at_once(options)) {
            let mut pointers = Few::<*mut c_void, { MOST + 2 }>::new();
            pointers.extend(values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()));
            pointers.extend(range.rows.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast()));
            let config = loaded.config(&range, shared, stream, attribute.as_mut());
            // SAFETY: the artifact's calling convention is buffers, integers, range, and all lie in memory of this call. The
            // signature compared every buffer with the shapes that the integers imply, and a kernel stays within them. A
            // buffer's memory and the kernel's code go back only when the stream has passed the launch, and a graph that is
            // being captured keeps them.
            unsafe { launch(code.context.api, &config, code.function(&range), pointers.as_ptr()) }.map_err(failed)?;
        }
        stream.keep_with(|| Arc::new(InGraph { code: Arc::clone(code), memory: memory(args) }) as Kept);
        Ok(())
    }
}

/// What a graph uses by a launch.
struct InGraph {
    code: Arc<Code>,
    memory: Vec<Arc<Memory>>,
}

impl Used for InGraph {
    fn used_on(&self, line: &Arc<Line>) {
        self.code.used_on(line);
        self.memory.iter().for_each(|memory| memory.used_on(line));
    }
}
