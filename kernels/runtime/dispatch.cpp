// Chooses, at load time, the build of the kernels that fits this CPU, and runs plans on threads.
//
// Compiled for the baseline instruction set only: it must run anywhere to be able to choose.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ascend_abi.h"

namespace {

// The levels of the x86-64 psABI, as far as the kernels use them. The compiler's builtin also
// asks the operating system whether it saves the wide registers.
const char* BestVariant() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    if (!v3) return "x86-64";
    return v4 ? "x86-64-v4" : "x86-64-v3";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "generic";
#endif
}

// The directory that this library was loaded from; its variants lie beside it.
std::string OwnDirectory() {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&OwnDirectory), &info) == 0) return ".";
    const std::string path = info.dli_fname;
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

void SetError(AscendError* error, const std::string& text) {
    if (error != nullptr) std::snprintf(error->text, sizeof error->text, "%s", text.c_str());
}

const AscendLibrary* Open(const std::string& variant, AscendError* error) {
    const std::string path = OwnDirectory() + "/libascend_cpusim_" + variant + ".so";
    // The handle is never closed: operators may run until the process ends.
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        SetError(error, "cannot load the kernels for " + variant + ": " + dlerror() +
                            ". Reinstall ascend-ops on this machine");
        return nullptr;
    }
    auto get = reinterpret_cast<const AscendLibrary* (*)()>(dlsym(handle, "ascend_variant"));
    const AscendLibrary* library = get == nullptr ? nullptr : get();
    if (library == nullptr || library->abi_version != ASCEND_ABI_VERSION) {
        SetError(error, path + " belongs to another version of ascend-ops. Reinstall ascend-ops");
        return nullptr;
    }
    return library;
}

}  // namespace

const AscendLibrary* ascend_library(const char* variant, AscendError* error) {
    static std::mutex mutex;
    static std::map<std::string, const AscendLibrary*> opened;
    const std::string name = variant == nullptr ? BestVariant() : variant;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto known = opened.find(name);
    if (known != opened.end()) return known->second;
    const AscendLibrary* library = Open(name, error);
    if (library != nullptr) opened[name] = library;
    return library;
}

const AscendOperator* ascend_operator(const char* name, AscendError* error) {
    const AscendLibrary* library = ascend_library(nullptr, error);
    if (library == nullptr) return nullptr;
    for (int32_t i = 0; i < library->operator_count; ++i) {
        if (std::strcmp(library->operators[i]->name, name) == 0) return library->operators[i];
    }
    SetError(error, std::string("no operator is called ") + name);
    return nullptr;
}

int ascend_run(const AscendOperator* op, const AscendProblem* problem, const AscendPlan* plan,
               const AscendTensor* tensors, int32_t threads, AscendError* error) {
    const int32_t cores = plan->core_count;
    const int32_t workers = threads < cores ? threads : cores;
    if (workers <= 1) return op->run(problem, plan, tensors, 0, cores, error);
    std::atomic<int> outcome{ASCEND_OK};
    auto work = [&](int32_t worker) {
        const auto begin = static_cast<int32_t>(int64_t{cores} * worker / workers);
        const auto end = static_cast<int32_t>(int64_t{cores} * (worker + 1) / workers);
        AscendError own{};
        const int code = op->run(problem, plan, tensors, begin, end, &own);
        int expected = ASCEND_OK;
        // Only the first failure is told; its thread alone writes the text.
        if (code != ASCEND_OK && outcome.compare_exchange_strong(expected, code)) *error = own;
    };
    std::vector<std::thread> pool;
    for (int32_t worker = 1; worker < workers; ++worker) pool.emplace_back(work, worker);
    work(0);
    for (std::thread& thread : pool) thread.join();
    return outcome.load();
}
