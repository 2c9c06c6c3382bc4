// Memory for a call, or for a kernel's whole life.
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>

namespace ascend_ops {

// Memory aligned as that of aclrtMalloc.
class Workspace {
   public:
    void* Uninitialised(uint64_t bytes) {
        // C++14, as older TensorFlows are compiled for, has no aligned operator new.
        void* memory = nullptr;
        if (posix_memalign(&memory, kAlignment, bytes) != 0) throw std::bad_alloc();
        memory_.reset(static_cast<uint8_t*>(memory));
        bytes_ = bytes;
        return memory;
    }

    // The first call makes it, and clears it; later ones get the same. Null when `bytes` differs.
    void* Kept(uint64_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (memory_ == nullptr) std::memset(Uninitialised(bytes), 0, bytes);
        return bytes_ == bytes ? memory_.get() : nullptr;
    }

   private:
    static constexpr size_t kAlignment = 512;
    struct Free {
        void operator()(uint8_t* memory) const { free(memory); }
    };
    std::mutex mutex_;
    std::unique_ptr<uint8_t[], Free> memory_;
    uint64_t bytes_ = 0;
};

// The number by which a kept workspace knows its constant operand again; any but 0.
constexpr int64_t kKeptNumber = 1;

}  // namespace ascend_ops
