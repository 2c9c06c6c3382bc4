#include "memory_pool.h"

#include <algorithm>

namespace ascend_ops {
namespace {

// Sizes are rounded up to powers of two, so that calls of like sizes share memory; at most half
// of it is then unused.
uint64_t SizeClass(uint64_t bytes) {
    uint64_t size = 512;  // the alignment of device memory
    while (size < bytes) size *= 2;
    return size;
}

}  // namespace

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
    Return();
    pool_ = std::move(other.pool_);
    buffer_ = std::move(other.buffer_);
    return *this;
}

void PooledBuffer::Return() {
    if (buffer_ != nullptr && pool_ != nullptr) pool_->Return(std::move(buffer_));
    buffer_.reset();
    pool_.reset();
}

Result MemoryPool::Take(uint64_t bytes, PooledBuffer* buffer) {
    if (bytes == 0) return {};
    const uint64_t size = SizeClass(bytes);
    std::shared_ptr<Buffer> taken;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = idle_.find(size);
    if (found != idle_.end()) {
        taken = std::move(found->second);
        idle_.erase(found);
        ++statistics_.reuses;
    } else {
        Result result = Buffer::Create(device_, type_, size, &taken);
        if (!result.ok()) return result;
        ++statistics_.allocations;
    }
    statistics_.bytes_in_use += size;
    statistics_.bytes_peak = std::max(statistics_.bytes_peak, statistics_.bytes_in_use);
    *buffer = PooledBuffer(shared_from_this(), std::move(taken));
    return {};
}

void MemoryPool::Return(std::shared_ptr<Buffer> buffer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    statistics_.bytes_in_use -= buffer->bytes();
    const uint64_t size = buffer->bytes();
    idle_.emplace(size, std::move(buffer));
}

PoolStatistics MemoryPool::statistics() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return statistics_;
}

}  // namespace ascend_ops
