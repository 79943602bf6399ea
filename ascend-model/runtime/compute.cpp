// Elementwise arithmetic. Of half it is float's, rounded once: float holds sums, products, quotients and roots of
// halves with more than twice their bits.
#include "compute.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../include/ascend_model/numbers.h"
#include "lanes.h"

namespace ascend_model {

namespace {

// Integers wrap, without the undefined behaviour of signed ones.
template <typename T>
using Ring = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<float>>;

template <typename T>
using Working = typename Ring<T>::type;

template <typename T>
T Load(const uint8_t* at, uint64_t i)
{
    T value;
    std::memcpy(&value, at + i * sizeof(T), sizeof(T));
    return value;
}

template <typename T>
void Store(uint8_t* at, uint64_t i, T value)
{
    std::memcpy(at + i * sizeof(T), &value, sizeof(T));
}

template <typename T>
T ScalarOf(const Immediate& with)
{
    T value;
    std::memcpy(&value, &with.scalar, sizeof(T));
    return value;
}

// Largest and smallest: a NaN wins.
template <typename T>
T Larger(T a, T b)
{
    return a > b || a != a ? a : b;
}

template <typename T>
T Smaller(T a, T b)
{
    return a < b || a != a ? a : b;
}

// The approximations that the interface documents as such: 11 bits of the mantissa are kept.
float Coarse(float value)
{
    return std::isfinite(value) ? BitCast<float>(BitCast<uint32_t>(value) & 0xfffff000U) : value;
}

template <Op op, typename W>
W Two(W a, W b)
{
    if constexpr (op == Op::Add) {
        return static_cast<W>(a + b);
    } else if constexpr (op == Op::Sub) {
        return static_cast<W>(a - b);
    } else {
        static_assert(op == Op::Mul);
        return static_cast<W>(a * b);
    }
}

template <typename T, typename F>
void Lanewise2(uint8_t* to, const uint8_t* a, const uint8_t* b, uint64_t n, F f)
{
    for (uint64_t i = 0; i < n; ++i) {
        Store<T>(to, i, static_cast<T>(f(Load<T>(a, i), Load<T>(b, i))));
    }
}

template <typename T, typename F>
void Lanewise1(uint8_t* to, const uint8_t* a, uint64_t n, F f)
{
    for (uint64_t i = 0; i < n; ++i) {
        Store<T>(to, i, static_cast<T>(f(Load<T>(a, i))));
    }
}

template <Op op, typename T>
void Ring2(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate&, uint64_t n)
{
    using W = Working<T>;
    Lanewise2<T>(to, a, b, n, [](T x, T y) { return Two<op, W>(static_cast<W>(x), static_cast<W>(y)); });
}

template <Op op, typename T>
void RingScalar(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    using W = Working<T>;
    const W s = static_cast<W>(ScalarOf<T>(with));
    Lanewise1<T>(to, a, n, [s](T x) { return Two<op, W>(static_cast<W>(x), s); });
}

// Comparisons keep signs, so they work on the type itself, or on float for half.
template <typename T>
using Ordered = std::conditional_t<std::is_integral_v<T>, T, float>;

template <Op op, typename T>
void Extreme2(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate&, uint64_t n)
{
    using W = Ordered<T>;
    Lanewise2<T>(to, a, b, n, [](T x, T y) {
        return op == Op::Max ? Larger<W>(static_cast<W>(x), static_cast<W>(y))
                             : Smaller<W>(static_cast<W>(x), static_cast<W>(y));
    });
}

template <Op op, typename T>
void ExtremeScalar(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    using W = Ordered<T>;
    const W s = static_cast<W>(ScalarOf<T>(with));
    Lanewise1<T>(to, a, n, [s](T x) {
        return op == Op::Maxs ? Larger<W>(static_cast<W>(x), s) : Smaller<W>(static_cast<W>(x), s);
    });
}

template <typename T>
void Divide(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate& with, uint64_t n)
{
    Lanewise2<T>(to, a, b, n, [&](T x, T y) {
        return Jittered(*with.machine, static_cast<float>(x) / static_cast<float>(y));
    });
}

template <typename T>
void MultiplyAdd(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate&, uint64_t n)
{
    for (uint64_t i = 0; i < n; ++i) {
        const float product = static_cast<float>(Load<T>(a, i)) * static_cast<float>(Load<T>(b, i));
        Store<T>(to, i, static_cast<T>(product + static_cast<float>(Load<T>(to, i))));
    }
}

template <typename T>
void ScaledAdd(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    const float s = static_cast<float>(ScalarOf<T>(with));
    for (uint64_t i = 0; i < n; ++i) {
        const float product = static_cast<float>(Load<T>(a, i)) * s;
        Store<T>(to, i, static_cast<T>(product + static_cast<float>(Load<T>(to, i))));
    }
}

template <Op op>
float One(Machine& machine, float x)
{
    switch (op) {
        case Op::Abs:
            return std::fabs(x);
        case Op::Exp:
            return Jittered(machine, static_cast<float>(std::exp(static_cast<double>(x))));
        case Op::Ln:
            return static_cast<float>(std::log(static_cast<double>(x)));
        case Op::Sqrt:
            return Jittered(machine, std::sqrt(x));
        case Op::Rsqrt:
            return Coarse(1.0f / std::sqrt(x));
        case Op::Reciprocal:
            return Coarse(1.0f / x);
        default:
            return x;
    }
}

template <Op op, typename T>
void Unary(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    Lanewise1<T>(to, a, n, [&](T x) { return One<op>(*with.machine, static_cast<float>(x)); });
}

template <typename T>
void Positive(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate&, uint64_t n)
{
    using W = Ordered<T>;
    Lanewise1<T>(to, a, n, [](T x) { return Larger<W>(static_cast<W>(x), W{0}); });
}

template <typename T>
void Leaky(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    const float s = static_cast<float>(ScalarOf<T>(with));
    Lanewise1<T>(to, a, n, [s](T x) {
        const float value = static_cast<float>(x);
        return value >= 0.0f ? value : value * s;
    });
}

template <Op op, typename T>
void Bitwise(uint8_t* to, const uint8_t* a, const uint8_t* b, const Immediate&, uint64_t n)
{
    using W = std::make_unsigned_t<T>;
    for (uint64_t i = 0; i < n; ++i) {
        const W x = Load<W>(a, i);
        const W y = op == Op::Not ? W{0} : Load<W>(b, i);
        Store<W>(to, i, static_cast<W>(op == Op::And ? x & y : op == Op::Or ? x | y : ~x));
    }
}

template <Op op, typename T>
void Shift(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate& with, uint64_t n)
{
    const uint64_t by = static_cast<std::make_unsigned_t<T>>(ScalarOf<T>(with));
    constexpr uint64_t BITS = sizeof(T) * 8;
    Lanewise1<T>(to, a, n, [&](T x) -> T {
        if (op == Op::ShiftLeft) {
            return by >= BITS ? T{0} : static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << by);
        }
        if (by >= BITS) {
            return x < 0 && !with.rounds ? static_cast<T>(-1) : T{0};
        }
        const T shifted = static_cast<T>(x >> by);
        const bool up = with.rounds && by > 0 && ((x >> (by - 1)) & 1) != 0;
        return static_cast<T>(shifted + (up ? 1 : 0));
    });
}

template <typename T>
void Fill(uint8_t* to, const uint8_t*, const uint8_t*, const Immediate& with, uint64_t n)
{
    const T value = ScalarOf<T>(with);
    for (uint64_t i = 0; i < n; ++i) {
        Store<T>(to, i, value);
    }
}

template <typename T>
void Move(uint8_t* to, const uint8_t* a, const uint8_t*, const Immediate&, uint64_t n)
{
    std::memmove(to, a, n * sizeof(T));
}

template <typename T>
Computation Arithmetic(Op op)
{
    switch (op) {
        case Op::Add:
            return Ring2<Op::Add, T>;
        case Op::Sub:
            return Ring2<Op::Sub, T>;
        case Op::Mul:
            return Ring2<Op::Mul, T>;
        case Op::Max:
            return Extreme2<Op::Max, T>;
        case Op::Min:
            return Extreme2<Op::Min, T>;
        case Op::Adds:
            return RingScalar<Op::Add, T>;
        case Op::Muls:
            return RingScalar<Op::Mul, T>;
        case Op::Maxs:
            return ExtremeScalar<Op::Maxs, T>;
        case Op::Mins:
            return ExtremeScalar<Op::Mins, T>;
        case Op::Relu:
            return Positive<T>;
        default:
            return nullptr;
    }
}

template <typename T>
Computation Floating(Op op)
{
    switch (op) {
        case Op::Div:
            return Divide<T>;
        case Op::MulAddDst:
            return MultiplyAdd<T>;
        case Op::Axpy:
            return ScaledAdd<T>;
        case Op::LeakyRelu:
            return Leaky<T>;
        case Op::Abs:
            return Unary<Op::Abs, T>;
        case Op::Exp:
            return Unary<Op::Exp, T>;
        case Op::Ln:
            return Unary<Op::Ln, T>;
        case Op::Sqrt:
            return Unary<Op::Sqrt, T>;
        case Op::Rsqrt:
            return Unary<Op::Rsqrt, T>;
        case Op::Reciprocal:
            return Unary<Op::Reciprocal, T>;
        default:
            return Arithmetic<T>(op);
    }
}

template <typename T>
Computation Integral(Op op)
{
    switch (op) {
        case Op::And:
            return Bitwise<Op::And, T>;
        case Op::Or:
            return Bitwise<Op::Or, T>;
        case Op::Not:
            return Bitwise<Op::Not, T>;
        case Op::ShiftLeft:
            return Shift<Op::ShiftLeft, T>;
        case Op::ShiftRight:
            return Shift<Op::ShiftRight, T>;
        default:
            return Arithmetic<T>(op);
    }
}

Computation Moving(Op op, uint32_t bits)
{
    if (op == Op::Duplicate) {
        return bits == 16 ? Fill<uint16_t> : bits == 32 ? Fill<uint32_t> : nullptr;
    }
    return bits == 16 ? Move<uint16_t> : bits == 32 ? Move<uint32_t> : nullptr;
}

Computation Find(Op op, DType type)
{
    if (op == Op::Duplicate || op == Op::Copy) {
        return Moving(op, Bits(type));
    }
    switch (type) {
        case DType::F16:
            return Floating<half>(op);
        case DType::F32:
            return Floating<float>(op);
        case DType::I16:
            return Integral<int16_t>(op);
        case DType::U16:
            return Integral<uint16_t>(op);
        case DType::I32:
            return Integral<int32_t>(op);
        case DType::U32:
            return Integral<uint32_t>(op);
        default:
            return nullptr;
    }
}

}  // namespace

Computation ComputationOf(Machine& machine, const char* api, Op op, DType type)
{
    const Computation found = Find(op, type);
    if (found == nullptr) {
        machine.report.Fault(api, "the model does not compute it on %s", Name(type));
    }
    return found;
}

float Jittered(Machine& machine, float value)
{
    const uint32_t most = machine.options.jitter_ulps;
    if (most == 0 || !std::isfinite(value) || value == 0.0f) {
        return value;
    }
    const int64_t off = static_cast<int64_t>(machine.Random() % (2 * most + 1)) - most;
    const float moved = BitCast<float>(static_cast<uint32_t>(BitCast<uint32_t>(value) + off));
    return std::isfinite(moved) && std::signbit(moved) == std::signbit(value) ? moved : value;
}

}  // namespace ascend_model
