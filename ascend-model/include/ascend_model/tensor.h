// Tensors in global memory and in unified buffer. Offsets and sizes count elements.
#pragma once

#include "ascend_model/dtypes.h"
#include "ascend_model/enums.h"
#include "ascend_model/keywords.h"
#include "ascend_model/numbers.h"
#include "ascend_model/runtime.h"

namespace AscendC {

template <typename T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;
    explicit LocalTensor(const ascend_model::Span& at) : span(at) {}

    LocalTensor operator[](int64_t offset) const
    {
        return LocalTensor(ascend_model::Within(span, Bytes(offset)));
    }

    // Waits for no other pipe: a flag must have said that the element is there.
    T GetValue(int64_t index) const
    {
        static_assert(!std::is_same_v<T, int4b_t>, "GetValue: elements of half a byte have no address");
        T value;
        ascend_model::ReadLocal(ascend_model::Within(span, Bytes(index)), sizeof(T), &value);
        return value;
    }

    // No other pipe waits for it: a flag must say that the element is there.
    void SetValue(int64_t index, T value) const
    {
        static_assert(!std::is_same_v<T, int4b_t>, "SetValue: elements of half a byte have no address");
        ascend_model::WriteLocal(ascend_model::Within(span, Bytes(index)), sizeof(T), &value);
    }

    template <typename U>
    LocalTensor<U> ReinterpretCast() const
    {
        return LocalTensor<U>(span);
    }

    uint32_t GetSize() const
    {
        const uint32_t bytes = span.end - span.offset;
        return std::is_same_v<T, int4b_t> ? bytes * 2 : bytes / static_cast<uint32_t>(sizeof(T));
    }

    // Narrows what the tensor may touch; its buffer has to have that much.
    void SetSize(uint32_t elements) { span = ascend_model::First(span, Bytes(elements)); }

    uint32_t GetLength() const { return span.end - span.offset; }

    const ascend_model::Span& At() const { return span; }

private:
    static constexpr int64_t Bytes(int64_t elements)
    {
        if constexpr (std::is_same_v<T, int4b_t>) {
            if (elements % 2 != 0) {
                ascend_model::HalfByte(elements);
            }
            return elements / 2;
        } else {
            return elements * static_cast<int64_t>(sizeof(T));
        }
    }

    ascend_model::Span span;
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t elements = 0)
    {
        at = reinterpret_cast<uint64_t>(buffer);
        size = elements;
    }

    GlobalTensor operator[](int64_t offset) const
    {
        GlobalTensor result;
        result.at = at + Bytes(offset);
        result.size = size > static_cast<uint64_t>(offset) ? size - offset : 0;
        return result;
    }

    T GetValue(int64_t index) const
    {
        T value;
        ascend_model::ReadGlobal(at + Bytes(index), sizeof(T), &value);
        return value;
    }

    void SetValue(int64_t index, T value) const { ascend_model::WriteGlobal(at + Bytes(index), sizeof(T), &value); }

    __gm__ T* GetPhyAddr() const { return reinterpret_cast<__gm__ T*>(at); }
    __gm__ T* GetPhyAddr(int64_t offset) const { return reinterpret_cast<__gm__ T*>(at + Bytes(offset)); }

    uint64_t GetSize() const { return size; }

    uint64_t At() const { return at; }

private:
    static constexpr uint64_t Bytes(int64_t elements)
    {
        if constexpr (std::is_same_v<T, int4b_t>) {
            if (elements % 2 != 0) {
                ascend_model::HalfByte(elements);
            }
            return static_cast<uint64_t>(elements / 2);
        } else {
            return static_cast<uint64_t>(elements * static_cast<int64_t>(sizeof(T)));
        }
    }

    uint64_t at = 0;
    uint64_t size = 0;
};

}  // namespace AscendC
