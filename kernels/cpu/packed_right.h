// The right matrix of a product in panels, packed by whichever thread comes first to a part of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include "gemm.h"
#include "matrix_rows.h"

namespace ascend_ops::cpu {

// Panels that are packed together are about so deep in all: a claim is for 128 KiB on AVX-512.
inline constexpr int64_t kClaimDepth = 1024;
inline int64_t CeilDivide(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
inline int64_t RoundUp(int64_t value, int64_t unit) { return CeilDivide(value, unit) * unit; }

inline int64_t DepthChunks(const GemmPlan& plan) { return CeilDivide(plan.shape.k, plan.depth); }
inline int64_t Panels(const GemmShape& shape) { return CeilDivide(shape.n, kPanel); }
inline int64_t PanelsAClaim(const GemmPlan& plan) {
    return std::max<int64_t>(1, kClaimDepth / plan.depth);
}
inline int64_t Claims(const GemmPlan& plan) {
    return DepthChunks(plan) * CeilDivide(Panels(plan.shape), PanelsAClaim(plan));
}
inline uint64_t ClaimBytes(const GemmPlan& plan) {
    return static_cast<uint64_t>(RoundUp((Claims(plan) + 1) * 8, kLineBytes));
}

inline int64_t ChunkDepth(const GemmPlan& plan, int64_t chunk) {
    return std::min<int64_t>(plan.depth, plan.shape.k - chunk * plan.depth);
}

// Rows [row, row + depth) of the right matrix and its panels [panel, panel + panels), panel after
// panel, row after row of kPanel floats; what the matrix lacks to whole panels is zero.
struct RightPart {
    int64_t row;
    int64_t depth;
    int64_t panel;
    int64_t panels;
};

inline void PackPanels(float* to, const Matrix& right, int64_t columns, const RightPart& part) {
    const int64_t column = part.panel * kPanel, size = part.depth * kPanel;
    const int64_t width = std::min(part.panels * kPanel, columns - column);
    const int64_t whole = width / kPanel, rest = width % kPanel;
    if (rest != 0) std::fill_n(to + whole * size, size, 0.0f);
    WithType(right.dtype, right.data, [&](const auto* data) {
        if (right.transposed) {
            for (int64_t at = 0; at < width; at += kPanel) {
                WidenTransposed(to + at * part.depth, kPanel,
                                data + (column + at) * right.pitch + part.row, right.pitch,
                                part.depth, std::min<int64_t>(kPanel, width - at));
            }
            return;
        }
        // Along the rows, as memory is read fastest in the order in which it lies.
        for (int64_t k = 0; k < part.depth; ++k) {
            const auto* from = data + (part.row + k) * right.pitch + column;
            float* row = to + k * kPanel;
            // A count that the compiler knows becomes a few moves.
            for (int64_t i = 0; i < whole; ++i) Widen(row + i * size, from + i * kPanel, kPanel);
            if (rest != 0) Widen(row + whole * size, from + whole * kPanel, rest);
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
        : plan_(plan), right_(right), call_(plan.call),
          done_(static_cast<std::atomic<uint64_t>*>(workspace)),
          claims_(workspace == nullptr ? nullptr : done_ + 1),
          panels_(AlignedAfter(claims_, ClaimBytes(plan_))),
          panels_a_claim_(PanelsAClaim(plan)),
          claims_a_chunk_(CeilDivide(Panels(plan.shape), panels_a_claim_)) {}

    // Packs what nobody has begun to, from `start` on; several threads share the work.
    void PackUnclaimed(int64_t start) const {
        const int64_t count = Claims(plan_);
        for (int64_t i = 0; i < count; ++i) TryPack((start + i) % count);
    }

    // The panel, which another thread may still be packing.
    const float* Panel(int64_t chunk, int64_t panel) const {
        const int64_t claim = chunk * claims_a_chunk_ + panel / panels_a_claim_;
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
        for (int64_t i = 0; i < Claims(plan_); ++i) claims_[i].store(0, std::memory_order_relaxed);
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
        return panels_ + (chunk * plan_.depth * Panels(plan_.shape) +
                          panel * ChunkDepth(plan_, chunk)) * kPanel;
    }

    void TryPack(int64_t claim) const {
        uint64_t word = claims_[claim].load(std::memory_order_relaxed);
        if (word == WordOf(call_, kTaken) || word == WordOf(call_, kPacked)) return;
        if (!claims_[claim].compare_exchange_strong(word, WordOf(call_, kTaken))) return;
        const int64_t chunk = claim / claims_a_chunk_;
        const int64_t first = claim % claims_a_chunk_ * panels_a_claim_;
        const int64_t panels = std::min(panels_a_claim_, Panels(plan_.shape) - first);
        PackPanels(PanelAt(chunk, first), right_, plan_.shape.n,
                   {chunk * plan_.depth, ChunkDepth(plan_, chunk), first, panels});
        claims_[claim].store(WordOf(call_, kPacked), std::memory_order_release);
    }

    const GemmPlan& plan_;
    const Matrix right_;
    const uint64_t call_;
    std::atomic<uint64_t>* const done_;  // tasks of this call that are over
    std::atomic<uint64_t>* const claims_;
    float* const panels_;
    const int64_t panels_a_claim_;
    const int64_t claims_a_chunk_;
};

}  // namespace ascend_ops::cpu
