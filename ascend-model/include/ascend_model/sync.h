// Flags between pipes, barriers within them, and which core this is.
#pragma once

#include "ascend_model/enums.h"
#include "ascend_model/runtime.h"

namespace ascend_model {

constexpr Pipe Setter(AscendC::HardEvent event)
{
    return static_cast<Pipe>(static_cast<uint8_t>(event) >> 4);
}

constexpr Pipe Waiter(AscendC::HardEvent event)
{
    return static_cast<Pipe>(static_cast<uint8_t>(event) & 15);
}

}  // namespace ascend_model

namespace AscendC {

template <HardEvent event>
inline void SetFlag(int32_t id)
{
    ascend_model::SetFlag(ascend_model::Setter(event), ascend_model::Waiter(event), id);
}

template <HardEvent event>
inline void WaitFlag(int32_t id)
{
    ascend_model::WaitFlag(ascend_model::Setter(event), ascend_model::Waiter(event), id);
}

template <pipe_t pipe>
inline void PipeBarrier()
{
    if constexpr (pipe == PIPE_ALL) {
        ascend_model::BarrierAll();
    } else {
        static_assert(pipe != PIPE_S, "PipeBarrier: the scalar pipe has none");
        ascend_model::Barrier(static_cast<ascend_model::Pipe>(pipe));
    }
}

inline int64_t GetBlockIdx()
{
    return ascend_model::BlockIndex();
}

inline int64_t GetBlockNum()
{
    return ascend_model::BlockCount();
}

}  // namespace AscendC

// The names of the language below the interface.
inline void pipe_barrier(pipe_t pipe)
{
    if (pipe == PIPE_ALL) {
        ascend_model::BarrierAll();
    } else {
        ascend_model::Barrier(static_cast<ascend_model::Pipe>(pipe));
    }
}

inline int64_t get_block_idx()
{
    return ascend_model::BlockIndex();
}

inline int64_t get_block_num()
{
    return ascend_model::BlockCount();
}
