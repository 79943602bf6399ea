//! Table of wrong kernels: what is wrong with each, the C++ of its body, and what the model must say.
//!
//! Bodies have `xs` (512 floats that were written) and `ys` (512 that were not), `frame.h` and `n` = 512.

/// One kernel: its name, its body, and parts of the message.
pub type Wrong = (&'static str, &'static str, &'static [&'static str]);

/// Kernels that compile and must be objected to when they run.
pub const AT_RUN_TIME: &[Wrong] = &[
    // Unified buffer and TPipe.
    (
        "too_much_memory",
        "TPipe p; TBuf<> a, b; p.InitBuffer(a, 180000); p.InitBuffer(b, 9000);",
        &["InitBuffer", "more than the 188160", "180000"],
    ),
    ("too_many_buffers", "TPipe p; TQue<TPosition::VECIN, 1> q; p.InitBuffer(q, 65, 32);", &["more than 64 buffers"]),
    ("two_pipes", "TPipe p; TPipe q;", &["TPipe", "a second TPipe"]),
    (
        "no_init",
        "TPipe p; TQue<TPosition::VECIN, 1> q; q.AllocTensor<float>();",
        &["AllocTensor", "InitBuffer was not called"],
    ),
    ("empty_buffer", "TPipe p; TBuf<> a; p.InitBuffer(a, 0);", &["a buffer of 0 bytes"]),
    (
        "no_pipe",
        "TBuf<> a; LocalTensor<float> t = a.Get<float>(); Duplicate(t, 1.0f, 8);",
        &["Duplicate", "no queue and no buffer gave out"],
    ),
    (
        "past_the_tensor",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.GetWithOffset<float>(64, 0); Duplicate(t, 1.0f, 65);",
        &["Duplicate", "[16384, 16644)", "ends at 16640"],
    ),
    (
        "tensor_past_the_buffer",
        "TPipe p; TBuf<> a; p.InitBuffer(a, 256); a.GetWithOffset<float>(64, 32);",
        &["a tensor at [32, 288)", "its buffer ends at 256"],
    ),
    (
        "place_past_the_tensor",
        "Frame<float> f(xs, ys); f.work.Get<float>()[2049];",
        &["LocalTensor", "byte 8196", "8192 bytes"],
    ),
    (
        "after_reset",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); f.pipe.Reset(); Duplicate(t, 1.0f, 8);",
        &["Duplicate", "TPipe has taken back"],
    ),
    (
        "more_than_the_buffer",
        "Frame<float> f(xs, ys); f.work.GetWithOffset<float>(2048, 32);",
        &["LocalTensor", "a tensor at [16416, 24608)", "its buffer ends at 24576"],
    ),
    // Queues.
    (
        "missing_enque",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); DataCopy(t, f.x, 64); f.in.DeQue<float>();",
        &["DeQue", "is empty"],
    ),
    ("missing_deque", "Frame<float> f(xs, ys); f.Load(64);", &["TPipe", "enqueued and never dequeued"]),
    (
        "missing_free",
        "Frame<float> f(xs, ys); f.Load(64); f.in.DeQue<float>();",
        &["TPipe", "dequeued and never freed"],
    ),
    ("never_enqueued", "Frame<float> f(xs, ys); f.in.AllocTensor<float>();", &["allocated and never enqueued"]),
    (
        "no_free_buffer",
        "Frame<float> f(xs, ys); for (int i = 0; i < 3; ++i) f.in.AllocTensor<float>();",
        &["AllocTensor", "all 2 buffers"],
    ),
    (
        "deeper_than_depth",
        "TPipe p; TQue<TPosition::VECIN, 1> q; p.InitBuffer(q, 2, 256); q.EnQue(q.AllocTensor<float>()); q.EnQue(q.AllocTensor<float>());",
        &["EnQue", "is full: its depth is 1"],
    ),
    (
        "enqueued_twice",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); f.in.EnQue(t); f.in.EnQue(t);",
        &["EnQue", "was enqueued already"],
    ),
    (
        "freed_twice",
        "Frame<float> f(xs, ys); f.Load(64); LocalTensor<float> t = f.in.DeQue<float>(); f.in.FreeTensor(t); f.in.FreeTensor(t);",
        &["FreeTensor", "was freed"],
    ),
    (
        "of_another_queue",
        "Frame<float> f(xs, ys); f.out.EnQue(f.in.AllocTensor<float>());",
        &["EnQue", "a tensor of another queue"],
    ),
    (
        "used_after_free",
        "Frame<float> f(xs, ys); f.Load(64); LocalTensor<float> t = f.in.DeQue<float>(); f.in.FreeTensor(t); Adds(f.work.Get<float>(), t, 1.0f, 64);",
        &["Adds", "freed or handed on"],
    ),
    (
        "used_while_queued",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); DataCopy(t, f.x, 64); f.in.EnQue(t); Adds(t, t, 1.0f, 64);",
        &["Adds", "enqueued: only DeQue"],
    ),
    (
        "too_many_events",
        "TPipe p; TQue<TPosition::VECIN, 1> q[9]; for (auto& one : q) { p.InitBuffer(one, 1, 32); one.FreeTensor(one.AllocTensor<float>()); }",
        &["FreeTensor", "all 8 event ids of V_MTE2"],
    ),
    // Alignment.
    (
        "misaligned_vector",
        "Frame<float> f(xs, ys); Duplicate(f.work.Get<float>()[3], 1.0f, 8);",
        &["Duplicate", "dst begins at byte 16396", "multiple of 32"],
    ),
    (
        "misaligned_copy",
        "Frame<float> f(xs, ys); DataCopyPad(f.work.Get<float>()[2], f.x, DataCopyExtParams{1, 32, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0});",
        &["DataCopyPad", "dst begins at byte 16392"],
    ),
    (
        "part_of_a_block",
        "Frame<float> f(xs, ys); DataCopy(f.work.Get<float>(), f.x, 12);",
        &["DataCopy", "48 bytes", "whole blocks"],
    ),
    (
        "misaligned_pair",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 128); PipeBarrier<PIPE_V>(); ReduceMax(t[65], t, t[512], 64);",
        &["ReduceMax", "multiple of 8"],
    ),
    // Repeats, masks, strides.
    (
        "too_many_repeats",
        "Frame<float> f(xs, ys); Duplicate(f.work.Get<float>(), 1.0f, 64, 256, 1, 8);",
        &["Duplicate", "repeatTime 256"],
    ),
    (
        "no_repeats",
        "Frame<float> f(xs, ys); Duplicate(f.work.Get<float>(), 1.0f, 64, 0, 1, 8);",
        &["Duplicate", "repeatTime 0"],
    ),
    (
        "too_long_a_mask",
        "Frame<float> f(xs, ys); Duplicate(f.work.Get<float>(), 1.0f, 65, 1, 1, 8);",
        &["Duplicate", "mask 65", "1 to 64"],
    ),
    (
        "mask_of_wider_type",
        "Frame<float> f(xs, ys); LocalTensor<half> h = f.work.Get<half>(); Duplicate(h, half(1), 128); PipeBarrier<PIPE_V>(); Cast(f.work.Get<float>()[1024], h, RoundMode::CAST_NONE, 128, 1, UnaryRepeatParams(1, 1, 8, 4));",
        &["Cast", "mask 128", "1 to 64"],
    ),
    (
        "mask_bits_beyond",
        "Frame<float> f(xs, ys); uint64_t mask[2] = {1, 1}; Duplicate(f.work.Get<float>(), 1.0f, mask, 1, 1, 8);",
        &["Duplicate", "lanes beyond the 64"],
    ),
    (
        "empty_mask",
        "Frame<float> f(xs, ys); uint64_t mask[2] = {0, 0}; Duplicate(f.work.Get<float>(), 1.0f, mask, 1, 1, 8);",
        &["a mask without lanes"],
    ),
    (
        "too_long_a_stride",
        "Frame<float> f(xs, ys); BinaryRepeatParams by(1, 1, 1, 256, 8, 8);",
        &["256 does not fit the 1 bytes"],
    ),
    (
        "block_stride_0",
        "Frame<float> f(xs, ys); Duplicate(f.work.Get<float>(), 1.0f, 64, 1, 0, 8);",
        &["Duplicate", "block stride of 0"],
    ),
    (
        "spoiled_mask",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); SetVectorMask<float>(8); Duplicate(t, 1.0f, 64); PipeBarrier<PIPE_V>(); Adds<float, false>(t[64], t, 1.0f, MASK_PLACEHOLDER, 1, UnaryRepeatParams());",
        &["Adds", "no mask was set since"],
    ),
    (
        "too_many_blocks",
        "Frame<float> f(xs, ys); DataCopyPad(f.work.Get<float>(), f.x, DataCopyExtParams{4096, 4, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0});",
        &["DataCopyPad", "blockCount 4096", "4095"],
    ),
    (
        "too_long_a_block",
        "Frame<float> f(xs, ys); DataCopyPad(f.work.Get<float>(), f.x, DataCopyExtParams{1, 2097152, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0});",
        &["DataCopyPad", "blockLen 2097152"],
    ),
    (
        "too_much_padding",
        "Frame<float> f(xs, ys); DataCopyPad(f.work.Get<float>(), f.x, DataCopyExtParams{1, 4, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 9, 0});",
        &["DataCopyPad", "padding", "at most 32 bytes"],
    ),
    (
        "half_a_vector_compared",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); PipeBarrier<PIPE_V>(); Compare(f.work.Get<uint8_t>()[4096], t, t, CMPMODE::LT, 32);",
        &["Compare", "32 elements", "whole vectors"],
    ),
    (
        "integers_compared",
        "Frame<int32_t> f(xs, ys); LocalTensor<int32_t> t = f.work.Get<int32_t>(); Duplicate(t, 1, 64); PipeBarrier<PIPE_V>(); Compare(f.work.Get<uint8_t>()[4096], t, t, CMPMODE::LT, 64);",
        &["Compare", "CMPMODE::EQ alone"],
    ),
    (
        "small_working_memory",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 1024); PipeBarrier<PIPE_V>(); ReduceSum(t[1032], t, f.work.GetWithOffset<float>(8, 4096), 1024);",
        &["ReduceSum", "sharedTmpBuffer"],
    ),
    ("odd_half_byte", "Frame<float> f(xs, ys); f.work.Get<int4b_t>()[3];", &["int4b_t", "begins within a byte"]),
    // Overlap.
    (
        "overlap_in_part",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 128); PipeBarrier<PIPE_V>(); Adds(t[8], t, 1.0f, 64);",
        &["Adds", "overlap in part"],
    ),
    (
        "widened_in_place",
        "Frame<float> f(xs, ys); LocalTensor<half> t = f.work.Get<half>(); Duplicate(t, half(1), 64); PipeBarrier<PIPE_V>(); Cast(t.ReinterpretCast<float>(), t, RoundMode::CAST_NONE, 64);",
        &["Cast", "overlap in part"],
    ),
    (
        "chained_repeats",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 256); PipeBarrier<PIPE_V>(); Div(t, t[64], t, 64, 3, BinaryRepeatParams(1, 1, 1, 0, 8, 0));",
        &["Div", "repeat 0 writes what repeat 1 reads"],
    ),
    (
        "spread_over_itself",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 8); PipeBarrier<PIPE_V>(); Brcb(t, t, 1, {1, 8});",
        &["Brcb", "must be apart"],
    ),
    // What was never written, and bounds of global memory.
    (
        "unwritten_buffer",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 32); PipeBarrier<PIPE_V>(); Adds(t[512], t, 1.0f, 33);",
        &["Adds", "which nothing has written", "byte 128 of it"],
    ),
    (
        "unwritten_tail",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); DataCopyPad(t, f.x, DataCopyExtParams{1, 20, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0}); f.in.EnQue(t); t = f.in.DeQue<float>(); Adds(f.work.Get<float>(), t, 1.0f, 8); f.in.FreeTensor(t);",
        &["Adds", "behind the end of what a transfer brought"],
    ),
    (
        "unwritten_scalar",
        "Frame<float> f(xs, ys); f.work.Get<float>().GetValue(0);",
        &["GetValue", "which nothing has written"],
    ),
    (
        "unwritten_global",
        "Frame<float> f(ys, xs); f.Load(64); f.in.FreeTensor(f.in.DeQue<float>());",
        &["DataCopy", "global memory of 2048 bytes, which nothing has written"],
    ),
    (
        "past_global",
        "Frame<float> f(xs, ys); f.Load(64, 500); f.in.FreeTensor(f.in.DeQue<float>());",
        &["DataCopy", "reads [2000, 2256) of global memory of 2048"],
    ),
    (
        "store_past_global",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.out.AllocTensor<float>(); Duplicate(t, 1.0f, 64); f.out.EnQue(t); f.Store(64, 504);",
        &["DataCopy", "writes [2016, 2272) of global memory of 2048"],
    ),
    ("no_memory_at_all", "Frame<float> f(nullptr, ys); f.Load(8);", &["DataCopy", "no memory of the device"]),
    (
        "gather_past_the_tensor",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.GetWithOffset<float>(64, 0); LocalTensor<uint32_t> o = f.work.GetWithOffset<uint32_t>(8, 1024); Duplicate(t, 1.0f, 64); Duplicate(o, 256u, 8); PipeBarrier<PIPE_V>(); Gather(f.work.GetWithOffset<float>(8, 2048), t, o, 0, 8);",
        &["Gather", "offset 0 is 256 bytes"],
    ),
    (
        "gather_between_elements",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.GetWithOffset<float>(64, 0); LocalTensor<uint32_t> o = f.work.GetWithOffset<uint32_t>(8, 1024); Duplicate(t, 1.0f, 64); Duplicate(o, 2u, 8); PipeBarrier<PIPE_V>(); Gather(f.work.GetWithOffset<float>(8, 2048), t, o, 0, 8);",
        &["Gather", "no multiple of the 4"],
    ),
    (
        "no_scale",
        "Frame<int32_t> f(xs, ys); LocalTensor<int32_t> t = f.work.Get<int32_t>(); Duplicate(t, 1, 8); PipeBarrier<PIPE_V>(); Cast(f.work.Get<half>()[2048], t, RoundMode::CAST_NONE, 8);",
        &["Cast", "without SetDeqScale"],
    ),
    (
        "mode_not_listed",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 8); PipeBarrier<PIPE_V>(); Cast(f.work.Get<bfloat16_t>()[2048], t, RoundMode::CAST_NONE, 8);",
        &["Cast", "CAST_NONE is not listed for float to bfloat16"],
    ),
    (
        "mode_for_half_alone",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 8); PipeBarrier<PIPE_V>(); Cast(f.work.Get<int32_t>()[1024], t, RoundMode::CAST_ODD, 8);",
        &["Cast", "CAST_ODD is not listed for float to int32"],
    ),
    // Events.
    (
        "reserved_event",
        "Frame<float> f(xs, ys); SetFlag<HardEvent::V_S>(6);",
        &["SetFlag", "event id 6 of V_S is reserved"],
    ),
    ("no_such_event", "Frame<float> f(xs, ys); SetFlag<HardEvent::V_S>(8);", &["SetFlag", "event id 8"]),
    ("wait_without_set", "Frame<float> f(xs, ys); WaitFlag<HardEvent::V_S>(0);", &["WaitFlag", "nothing has set"]),
    (
        "other_event",
        "Frame<float> f(xs, ys); SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_MTE3>(0);",
        &["WaitFlag", "V_MTE3 with id 0"],
    ),
    (
        "set_twice",
        "Frame<float> f(xs, ys); SetFlag<HardEvent::V_S>(0); SetFlag<HardEvent::V_S>(0);",
        &["SetFlag", "set again"],
    ),
    (
        "left_over",
        "Frame<float> f(xs, ys); SetFlag<HardEvent::V_S>(0);",
        &["SetFlag", "still set when the kernel ends"],
    ),
    (
        "not_allocated",
        "Frame<float> f(xs, ys); f.pipe.ReleaseEventID<HardEvent::V_S>(0);",
        &["ReleaseEventID", "was not allocated"],
    ),
    (
        "too_many_allocated",
        "Frame<float> f(xs, ys); for (int i = 0; i < 7; ++i) f.pipe.AllocEventID<HardEvent::V_S>();",
        &["AllocEventID", "are in use"],
    ),
    // Order between pipes and within them.
    (
        "no_barrier_raw",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); Adds(t[64], t, 1.0f, 64);",
        &["Adds: race", "reads unified buffer", "Duplicate", "PipeBarrier<PIPE_V> is missing"],
    ),
    (
        "no_barrier_waw",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); Duplicate(t, 2.0f, 8);",
        &["Duplicate: race", "writes unified buffer", "PipeBarrier<PIPE_V>"],
    ),
    (
        "no_barrier_war",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); PipeBarrier<PIPE_V>(); Adds(t[64], t, 1.0f, 64); Duplicate(t, 2.0f, 64);",
        &["Duplicate: race", "Adds", "reads: PipeBarrier<PIPE_V>"],
    ),
    (
        "other_barrier",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); PipeBarrier<PIPE_MTE2>(); Adds(t[64], t, 1.0f, 64);",
        &["Adds: race"],
    ),
    (
        "vector_before_load",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.x, 64); Adds(t[64], t, 1.0f, 64);",
        &["Adds: race", "DataCopy (instruction", "MTE2_V is missing"],
    ),
    (
        "store_before_vector",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); DataCopy(f.y, t, 64);",
        &["DataCopy: race", "V_MTE3 is missing"],
    ),
    (
        "load_over_vector",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); DataCopy(t, f.x, 64);",
        &["DataCopy: race", "V_MTE2 is missing"],
    ),
    (
        "vector_over_store",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 64); Duplicate(t, 2.0f, 64);",
        &["Duplicate: race", "MTE3_V is missing"],
    ),
    (
        "scalar_before_vector",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); t.GetValue(0);",
        &["GetValue: race", "V_S is missing"],
    ),
    (
        "scalar_before_load",
        "Frame<float> f(xs, ys); f.Load(64); LocalTensor<float> t = f.in.DeQue<float>(); t.GetValue(0); f.in.FreeTensor(t);",
        &["GetValue: race", "MTE2_S is missing"],
    ),
    (
        "vector_before_scalar",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); for (int i = 0; i < 8; ++i) t.SetValue(i, 1.0f); Adds(t[8], t, 1.0f, 8);",
        &["Adds: race", "SetValue", "S_V is missing"],
    ),
    (
        "store_before_scalar",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); for (int i = 0; i < 8; ++i) t.SetValue(i, 1.0f); DataCopy(f.y, t, 8);",
        &["DataCopy: race", "S_MTE3 is missing"],
    ),
    (
        "load_after_store",
        "Frame<float> f(xs, xs); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 64); DataCopy(t[64], f.x, 64);",
        &["DataCopy: race", "reads global memory", "MTE3_MTE2 is missing"],
    ),
    (
        "two_stores",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 128); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 64); DataCopy(f.y, t[64], 64);",
        &["DataCopy: race", "writes global memory", "PipeBarrier<PIPE_MTE3>"],
    ),
    (
        "flag_too_early",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Hand<HardEvent::V_S>(); Duplicate(t, 1.0f, 64); t.GetValue(0);",
        &["GetValue: race", "V_S is missing"],
    ),
    ("scalar_barrier", "Frame<float> f(xs, ys); pipe_barrier(PIPE_S);", &["PipeBarrier", "the scalar pipe has none"]),
    // Scalar stores to global memory.
    (
        "left_in_the_cache",
        "Frame<float> f(xs, ys); f.y.SetValue(0, 1.0f);",
        &["SetValue", "DataCacheCleanAndInvalid is missing"],
    ),
];

/// Kernels that must be objected to where two cores run them.
pub const ON_TWO_CORES: &[Wrong] = &[
    (
        "both_write",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 64);",
        &["core 1", "DataCopy: race", "writes global memory", "on another core"],
    ),
    (
        "one_reads",
        "Frame<float> f(xs, xs); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.x[GetBlockIdx() * 64], 64); Hand<HardEvent::MTE2_MTE3>(); DataCopy(f.y[64], t, 64);",
        &["core 1", "DataCopy: race", "on another core"],
    ),
    (
        "same_line",
        "Frame<float> f(xs, ys); f.y.SetValue(GetBlockIdx(), 1.0f); DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(f.y);",
        &["core 1", "SetValue", "the same line of 64 bytes"],
    ),
];

/// Bodies that must not compile for a chip (its architecture comes first), and what the compiler must say.
pub const AT_COMPILE_TIME: &[(u32, Wrong)] = &[
    (2201, ("add_bf16", "LocalTensor<bfloat16_t> t; Add(t, t, t, 8);", &["Add: this type of elements"])),
    (2201, ("add_int8", "LocalTensor<int8_t> t; Add(t, t, t, 8);", &["Add: this type of elements"])),
    (2201, ("div_int32", "LocalTensor<int32_t> t; Div(t, t, t, 8);", &["Div: this type of elements"])),
    (2201, ("exp_bf16", "LocalTensor<bfloat16_t> t; Exp(t, t, 8);", &["Exp: this type of elements"])),
    (2201, ("and_int32", "LocalTensor<int32_t> t; And(t, t, t, 8);", &["And: this type of elements"])),
    (2201, ("fill_int8", "LocalTensor<int8_t> t; Duplicate(t, int8_t(1), 32);", &["Duplicate: this type of elements"])),
    (
        2201,
        (
            "float_to_int8",
            "LocalTensor<int8_t> t; LocalTensor<float> s; Cast(t, s, RoundMode::CAST_RINT, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (
        2201,
        (
            "int8_to_float",
            "LocalTensor<float> t; LocalTensor<int8_t> s; Cast(t, s, RoundMode::CAST_NONE, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (
        2201,
        (
            "bf16_to_half",
            "LocalTensor<half> t; LocalTensor<bfloat16_t> s; Cast(t, s, RoundMode::CAST_RINT, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (
        2201,
        (
            "float_to_fp8",
            "LocalTensor<fp8_e4m3fn_t> t; LocalTensor<float> s; Cast(t, s, RoundMode::CAST_RINT, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (2201, ("sum_int32", "LocalTensor<int32_t> t; ReduceSum(t, t, t, 8);", &["reductions: half and float alone"])),
    (
        2201,
        (
            "select_int32",
            "LocalTensor<int32_t> t; LocalTensor<uint8_t> m; Select(t, m, t, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, 8);",
            &["Select: this type of elements"],
        ),
    ),
    (2201, ("scalar_of_other_type", "LocalTensor<half> t; Adds(t, t, 1.0f, 8);", &["no matching function"])),
    (
        2002,
        (
            "bf16_on_310p",
            "LocalTensor<float> t; LocalTensor<bfloat16_t> s; Cast(t, s, RoundMode::CAST_NONE, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (
        2002,
        (
            "int16_on_310p",
            "LocalTensor<int16_t> t; LocalTensor<float> s; Cast(t, s, RoundMode::CAST_RINT, 8);",
            &["Cast: this pair of types"],
        ),
    ),
    (
        2002,
        (
            "padded_on_310p",
            "LocalTensor<float> t; GlobalTensor<float> g; DataCopyPad(g, t, DataCopyExtParams{1, 4, 0, 0, 0});",
            &["DataCopyPad: not on this chip"],
        ),
    ),
    (
        3510,
        (
            "float_to_int8_on_950",
            "LocalTensor<int8_t> t; LocalTensor<float> s; Cast(t, s, RoundMode::CAST_RINT, 8);",
            &["Cast: this pair of types"],
        ),
    ),
];
