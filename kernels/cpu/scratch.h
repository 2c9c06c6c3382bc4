// Memory of a thread that grows to what its largest task needed.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <new>

namespace ascend_ops::cpu {

class Scratch {
   public:
    // Floats on a cache line's boundary; they keep their values until more are asked for.
    float* Floats(int64_t count) {
        if (count > count_) {
            memory_.reset(new (std::align_val_t(64)) float[static_cast<size_t>(count)]);
            count_ = count;
        }
        return memory_.get();
    }

   private:
    struct Free {
        void operator()(float* memory) const {
            ::operator delete[](memory, std::align_val_t(64));
        }
    };
    std::unique_ptr<float[], Free> memory_;
    int64_t count_ = 0;
};

}  // namespace ascend_ops::cpu
