// The checker's part about global memory: who is ordered with whom.
#include <algorithm>
#include <cstdio>

#include "cpusim/checker.h"

namespace cpusim {

namespace {
// A flag's counter has four bits; one that overflows stops the hardware.
constexpr size_t kFlagCountMax = 15;

std::string CoreAndTile(const GlobalAccess& access) {
    return "core " + std::to_string(access.core) + ", tile " + std::to_string(access.tile);
}
}  // namespace

void Checker::AddProduct(const void* result, bool small, bool accumulates) {
    if (accumulates && small_product_ == result) {
        Fail("Mmad", "adds to a small product that may not be done: PipeBarrier<PIPE_M> is missing "
             "before it", result);
    }
    small_product_ = small ? result : nullptr;
}

void Checker::SetCrossFlag(bool is_cube, int id, pipe_t pipe) {
    if (!is_cube) {
        Fail("CrossCoreSetFlag", "the emulator carries flags from a cube core to its vector cores "
             "only", nullptr);
    }
    if (id < 0 || id >= BlockHistory::kFlags) {
        Fail("CrossCoreSetFlag", "flags are 0 to 15, not " + std::to_string(id), nullptr);
    }
    Clock told = clocks_[pipe];
    told.cycles = std::max(told.cycles, clocks_[PIPE_S].cycles);
    for (auto& vector_core : block_->told) {
        auto& flags = vector_core[static_cast<size_t>(id)];
        if (flags.size() == kFlagCountMax) {
            Fail("CrossCoreSetFlag", "flag " + std::to_string(id) + " is set more than 15 times "
                 "before anybody has to wait for it: its counter would overflow", nullptr);
        }
        flags.push_back(told);
    }
}

void Checker::WaitCrossFlag(bool is_cube, int id) {
    if (is_cube || id < 0 || id >= BlockHistory::kFlags) {
        Fail("CrossCoreWaitFlag", "a vector core waits for flags 0 to 15 of its cube core", nullptr);
    }
    auto& flags = block_->told[static_cast<size_t>(core_.sub_block)][static_cast<size_t>(id)];
    if (flags.empty()) {
        Fail("CrossCoreWaitFlag", "flag " + std::to_string(id) + " was not set as often as it is "
             "waited for: the core would hang", nullptr);
    }
    for (int pipe = 0; pipe < kPipeCount; ++pipe) {
        cube_seen_[pipe] = std::max(cube_seen_[pipe], flags.front()[pipe]);
    }
    clocks_[PIPE_S].cycles = std::max(clocks_[PIPE_S].cycles, flags.front().cycles);
    flags.pop_front();
}

void Checker::RequireCubeSeen(const uint8_t* begin, uint64_t bytes,
                              const char* instruction) const {
    for (const GlobalAccess& write : block_->cube_writes) {
        if (begin >= write.end || begin + bytes <= write.begin) continue;
        if (cube_seen_[write.pipe] >= write.time) continue;
        Fail(instruction, "the vector core does not wait for the cube core, which wrote here: "
             "CrossCoreSetFlag and CrossCoreWaitFlag are missing between them", begin);
    }
}

void Checker::RequireFlagsWaited() const {
    const auto& flags = block_->told[static_cast<size_t>(core_.sub_block)];
    for (size_t id = 0; id < flags.size(); ++id) {
        if (flags[id].empty()) continue;
        Fail("end of kernel", "cross-core flag " + std::to_string(id) + " was set and not waited for "
             "by each vector core: the next kernel would see it", nullptr);
    }
}

void RequireCoresApart(const char* operator_name, std::vector<GlobalAccess> accesses) {
    using Kind = GlobalAccess::Kind;
    std::sort(accesses.begin(), accesses.end(),
              [](const GlobalAccess& a, const GlobalAccess& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < accesses.size(); ++i) {
        const GlobalAccess& one = accesses[i];
        for (size_t j = i + 1; j < accesses.size() && accesses[j].begin < one.end; ++j) {
            const GlobalAccess& other = accesses[j];
            const bool same_kind = one.kind == other.kind && one.kind != Kind::kWrite;
            const bool same_core = one.core == other.core && one.is_cube == other.is_cube;
            // Within a block the cross-core flags have been looked at already.
            const bool cube_and_vector = one.block == other.block && one.is_cube != other.is_cube;
            if (same_core || cube_and_vector || same_kind) continue;
            char place[32];
            std::snprintf(place, sizeof place, "%p", static_cast<const void*>(other.begin));
            throw Violation(std::string(operator_name) + ": " + CoreAndTile(one) + " and " +
                            CoreAndTile(other) + ", address " + place +
                            ": " + one.instruction + " and " + other.instruction +
                            " touch the same bytes of global memory, and nothing orders them");
        }
    }
}

}  // namespace cpusim
