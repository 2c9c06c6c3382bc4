// Device memory that is kept for the next call instead of being given back to the driver.
#pragma once

#include <map>
#include <mutex>

#include "device.h"

namespace ascend_ops {

struct PoolStatistics {
    uint64_t allocations = 0;   // asked of the device
    uint64_t reuses = 0;        // served from what was given back
    uint64_t bytes_in_use = 0;
    uint64_t bytes_peak = 0;
};

class MemoryPool;

// A buffer on loan; it returns to its pool when the handle is destroyed.
class PooledBuffer {
   public:
    PooledBuffer() = default;
    PooledBuffer(std::shared_ptr<MemoryPool> pool, std::shared_ptr<Buffer> buffer)
        : pool_(std::move(pool)), buffer_(std::move(buffer)) {}
    PooledBuffer(PooledBuffer&& other) noexcept = default;
    PooledBuffer& operator=(PooledBuffer&& other) noexcept;
    ~PooledBuffer() { Return(); }
    AscendTensor tensor() const { return buffer_ ? buffer_->tensor() : AscendTensor{nullptr, 0}; }

   private:
    void Return();
    std::shared_ptr<MemoryPool> pool_;
    std::shared_ptr<Buffer> buffer_;
};

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
   public:
    MemoryPool(std::shared_ptr<Device> device, MemoryType type)
        : device_(std::move(device)), type_(type) {}
    // At least `bytes`; 0 bytes need no memory.
    Result Take(uint64_t bytes, PooledBuffer* buffer);
    PoolStatistics statistics() const;

   private:
    friend class PooledBuffer;
    void Return(std::shared_ptr<Buffer> buffer);

    std::shared_ptr<Device> device_;
    MemoryType type_;
    mutable std::mutex mutex_;
    std::multimap<uint64_t, std::shared_ptr<Buffer>> idle_;
    PoolStatistics statistics_;
};

}  // namespace ascend_ops
