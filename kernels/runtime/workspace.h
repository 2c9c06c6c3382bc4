// Memory for a call, or for a kernel's whole life.
#pragma once

#include <stdint.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>

namespace ascend_ops {

// Memory aligned as that of aclrtMalloc.
class Workspace {
   public:
    void* Uninitialised(uint64_t bytes) {
        memory_.reset(new (kAlignment) uint8_t[bytes]);
        bytes_ = bytes;
        return memory_.get();
    }

    // The first call makes it, and clears it; later ones get the same. Null when `bytes` differs.
    void* Kept(uint64_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (memory_ == nullptr) std::memset(Uninitialised(bytes), 0, bytes);
        return bytes_ == bytes ? memory_.get() : nullptr;
    }

   private:
    static constexpr std::align_val_t kAlignment{512};
    struct Free {
        void operator()(uint8_t* memory) const { ::operator delete[](memory, kAlignment); }
    };
    std::mutex mutex_;
    std::unique_ptr<uint8_t[], Free> memory_;
    uint64_t bytes_ = 0;
};

// The number by which a kept workspace knows its constant operand again; any but 0.
constexpr int64_t kKeptNumber = 1;

}  // namespace ascend_ops
