// Names of the interface that are values.
#pragma once

#include <cstdint>

// Queues of a core that work beside each other.
enum pipe_t { PIPE_S = 0, PIPE_V = 1, PIPE_MTE2 = 2, PIPE_MTE3 = 3, PIPE_ALL = 4 };

using event_t = int8_t;

namespace AscendC {

using TEventID = int8_t;

// Where a tensor lies, by what it is for.
enum class TPosition : uint8_t { GM, VECIN, VECOUT, VECCALC };
using QuePosition = TPosition;

// A flag that one pipe sets and another waits for: four bits for each.
enum class HardEvent : uint8_t {
    S_V = 0x01,
    S_MTE2 = 0x02,
    S_MTE3 = 0x03,
    V_S = 0x10,
    V_V = 0x11,
    V_MTE2 = 0x12,
    V_MTE3 = 0x13,
    MTE2_S = 0x20,
    MTE2_V = 0x21,
    MTE2_MTE3 = 0x23,
    MTE3_S = 0x30,
    MTE3_V = 0x31,
    MTE3_MTE2 = 0x32,
};

enum class RoundMode : uint8_t {
    CAST_NONE = 0,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD,
    CAST_HYBRID,
};

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };

enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };

// Passed in place of a mask where the mask registers hold it.
constexpr uint64_t MASK_PLACEHOLDER = 0;

constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr uint32_t DEFAULT_BLK_NUM = 8;
constexpr uint32_t DEFAULT_BLK_STRIDE = 1;
constexpr uint32_t DEFAULT_REPEAT_STRIDE = 8;

}  // namespace AscendC
