// The right matrix of a product in panels, packed by whichever thread comes first to a part of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include "matrix_rows.h"
#include "micro_kernel.h"

namespace ascend_ops::cpu {

// Panels that are packed together: one claim for 64 KiB and more.
inline constexpr int64_t kPanelsAClaim = 4;
inline constexpr int64_t kLineBytes = 64;  // a cache line
inline constexpr int64_t kLineFloats = kLineBytes / 4;

inline int64_t CeilDivide(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
inline int64_t RoundUp(int64_t value, int64_t unit) { return CeilDivide(value, unit) * unit; }

inline int64_t DepthChunks(const GemmShape& shape) { return CeilDivide(shape.k, kDepth); }
inline int64_t Panels(const GemmShape& shape) { return CeilDivide(shape.n, kPanel); }
inline int64_t Claims(const GemmShape& shape) {
    return DepthChunks(shape) * CeilDivide(Panels(shape), kPanelsAClaim);
}
inline uint64_t ClaimBytes(const GemmShape& shape) {
    return static_cast<uint64_t>(RoundUp((Claims(shape) + 1) * 8, kLineBytes));
}

inline int64_t ChunkDepth(const GemmShape& shape, int64_t chunk) {
    return std::min<int64_t>(kDepth, shape.k - chunk * kDepth);
}

// A panel of the right matrix, row after row of kPanel floats; what the matrix lacks to a whole one is
// zero.
inline void PackPanel(float* to, const Matrix& right, const GemmShape& shape, int64_t chunk,
                      int64_t panel) {
    const int64_t depth = ChunkDepth(shape, chunk), row = chunk * kDepth, column = panel * kPanel;
    const int64_t width = std::min<int64_t>(kPanel, shape.n - column);
    if (width < kPanel) std::fill(to, to + depth * kPanel, 0.0f);
    WithType(right.dtype, right.data, [&](const auto* data) {
        if (right.transposed) {
            WidenTransposed(to, kPanel, data + column * right.pitch + row, right.pitch, depth,
                            width);
            return;
        }
        const auto* from = data + row * right.pitch + column;
        for (int64_t k = 0; k < depth; ++k) {
            // A count that the compiler knows becomes a few moves.
            if (width == kPanel) Widen(to + k * kPanel, from + k * right.pitch, kPanel);
            else Widen(to + k * kPanel, from + k * right.pitch, width);
        }
    });
}

// A call's number makes words of its own out of what an earlier one left in the workspace, which
// nobody has to clear: any other word means "free".
enum Claim : uint64_t { kTaken = 1, kPacked = 2 };
inline uint64_t WordOf(uint64_t call, uint64_t state) { return call << 2 | state; }

// The right matrix in panels: chunk after chunk, panel after panel, row after row of kPanel floats;
// what the matrix lacks to whole panels is zero.
class PackedRight {
   public:
    PackedRight(const GemmPlan& plan, const Matrix& right, void* workspace)
        : shape_(plan.shape), right_(right), call_(plan.call),
          done_(static_cast<std::atomic<uint64_t>*>(workspace)),
          claims_(workspace == nullptr ? nullptr : done_ + 1),
          panels_(AlignedAfter(claims_, ClaimBytes(shape_))),
          claims_a_chunk_(CeilDivide(Panels(shape_), kPanelsAClaim)) {}

    // Packs what nobody has begun to, from `start` on; several threads share the work.
    void PackUnclaimed(int64_t start) const {
        const int64_t count = Claims(shape_);
        for (int64_t i = 0; i < count; ++i) TryPack((start + i) % count);
    }

    // The panel, which another thread may still be packing.
    const float* Panel(int64_t chunk, int64_t panel) const {
        const int64_t claim = chunk * claims_a_chunk_ + panel / kPanelsAClaim;
        const uint64_t packed = WordOf(call_, kPacked);
        for (int spins = 0; claims_[claim].load(std::memory_order_acquire) != packed; ++spins) {
            if (spins > kSpinsMax) std::this_thread::yield();
        }
        return PanelAt(chunk, panel);
    }

    // The last task takes the claims back: the same plan may be run again.
    void FinishTask(uint64_t tasks) const {
        uint64_t before = done_->load();
        uint64_t after;
        do {
            const bool first = before >> kCountBits != call_ << kCountBits >> kCountBits;
            after = call_ << kCountBits | ((first ? 0 : before & kCountMask) + 1);
        } while (!done_->compare_exchange_weak(before, after));
        if ((after & kCountMask) != tasks) return;
        for (int64_t i = 0; i < Claims(shape_); ++i) claims_[i].store(0, std::memory_order_relaxed);
        done_->store(0);
    }

   private:
    static constexpr int kSpinsMax = 1000;
    static constexpr int kCountBits = 32;
    static constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;

    // The caller's workspace may begin anywhere; loads must not cross cache lines.
    static float* AlignedAfter(void* begin, uint64_t bytes) {
        const auto address = reinterpret_cast<uintptr_t>(begin) + bytes;
        return reinterpret_cast<float*>((address + kLineBytes - 1) / kLineBytes * kLineBytes);
    }
    float* PanelAt(int64_t chunk, int64_t panel) const {
        return panels_ +
               (chunk * kDepth * Panels(shape_) + panel * ChunkDepth(shape_, chunk)) * kPanel;
    }

    void TryPack(int64_t claim) const {
        uint64_t word = claims_[claim].load(std::memory_order_relaxed);
        if (word == WordOf(call_, kTaken) || word == WordOf(call_, kPacked)) return;
        if (!claims_[claim].compare_exchange_strong(word, WordOf(call_, kTaken))) return;
        const int64_t chunk = claim / claims_a_chunk_;
        const int64_t first = claim % claims_a_chunk_ * kPanelsAClaim;
        const int64_t end = std::min(first + kPanelsAClaim, Panels(shape_));
        for (int64_t panel = first; panel < end; ++panel) {
            PackPanel(PanelAt(chunk, panel), right_, shape_, chunk, panel);
        }
        claims_[claim].store(WordOf(call_, kPacked), std::memory_order_release);
    }

    const GemmShape shape_;
    const Matrix right_;
    const uint64_t call_;
    std::atomic<uint64_t>* const done_;  // tasks of this call that are over
    std::atomic<uint64_t>* const claims_;
    float* const panels_;
    const int64_t claims_a_chunk_;
};

}  // namespace ascend_ops::cpu
