// LocalTensor (a view of the Unified Buffer) and GlobalTensor (a view of global memory).
#pragma once

#include "cpusim/core.h"
#include "cpusim/cycles.h"

namespace AscendC {

template <typename T>
class LocalTensor {
   public:
    using PrimType = T;
    LocalTensor() {}
    // For the queues only: kernels get their tensors from TQue and TBuf.
    static LocalTensor At(uint8_t* address, uint32_t elements) {
        LocalTensor tensor;
        tensor.data_ = reinterpret_cast<T*>(address);
        tensor.elements_ = elements;
        return tensor;
    }

    T GetValue(const uint32_t index) const {
        CheckIndex(index, 1, "GetValue");
        cpusim::ObserveRead(PIPE_S, data_ + index, sizeof(T), "GetValue");
        cpusim::ObserveCycles(PIPE_S, cpusim::kScalarAccessCycles);
        return data_[index];
    }
    template <typename S>
    void SetValue(const uint32_t index, const S value) const {
        CheckIndex(index, 1, "SetValue");
        cpusim::ObserveWrite(PIPE_S, data_ + index, sizeof(T), "SetValue");
        cpusim::ObserveCycles(PIPE_S, cpusim::kScalarAccessCycles);
        data_[index] = static_cast<T>(value);
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>::At(reinterpret_cast<uint8_t*>(data_),
                                  static_cast<uint32_t>(elements_ * sizeof(T) / sizeof(U)));
    }
    LocalTensor operator[](const uint32_t offset) const {
        CheckIndex(offset, 0, "operator[]");
        return At(reinterpret_cast<uint8_t*>(data_ + offset), elements_ - offset);
    }
    uint32_t GetSize() const { return elements_; }
    void SetSize(const uint32_t size) { elements_ = size; }
    uint64_t GetPhyAddr() const {
        const auto offset = static_cast<uint64_t>(Bytes() - cpusim::ThisCore().memory);
        return offset - cpusim::RegionOffset(static_cast<int>(cpusim::RegionAt(offset)));
    }

    // The emulator's own access.
    T* Data() const { return data_; }
    uint8_t* Bytes() const { return reinterpret_cast<uint8_t*>(data_); }
    void CheckIndex(uint64_t first, uint64_t count, const char* instruction) const {
        cpusim::Require(first + count <= elements_, instruction,
                        "goes beyond the end of the tensor", data_ + elements_);
    }

   private:
    T* data_ = nullptr;
    uint32_t elements_ = 0;
};

template <typename T>
class GlobalTensor {
   public:
    using PrimType = T;
    GlobalTensor() {}
    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize) {
        data_ = buffer;
        elements_ = bufferSize;
    }
    void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, UINT64_MAX / sizeof(T)); }
    T GetValue(const uint64_t offset) const {
        CheckRange(offset, 1, "GetValue");
        cpusim::ObserveGlobalRead(data_ + offset, sizeof(T), "GetValue");
        return data_[offset];
    }
    void SetValue(const uint64_t offset, T value) {
        CheckRange(offset, 1, "SetValue");
        cpusim::ObserveGlobalStore(data_ + offset, sizeof(T), "SetValue");
        data_[offset] = value;
    }
    GlobalTensor operator[](const uint64_t offset) const {
        cpusim::Require(offset <= elements_, "operator[]", "goes beyond the end of the tensor",
                        data_);
        GlobalTensor tensor;
        tensor.data_ = data_ + offset;
        tensor.elements_ = elements_ - offset;
        return tensor;
    }
    uint64_t GetSize() const { return elements_; }
    const __gm__ T* GetPhyAddr() const { return data_; }
    __gm__ T* GetPhyAddr(const uint64_t offset) const { return data_ + offset; }

    // The emulator's own access.
    T* Data() const { return data_; }
    void CheckRange(uint64_t first, uint64_t count, const char* instruction) const {
        cpusim::Require(first + count <= elements_, instruction,
                        "goes beyond the end of the global tensor", data_ + first);
    }

   private:
    T* data_ = nullptr;
    uint64_t elements_ = 0;
};

}  // namespace AscendC
