// The AscendCL layer against a fake of AscendCL that counts what is alive and fails on demand.
#include <acl/acl.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "aclrt_device.h"
#include "check.h"
#include "operator_session.h"

namespace {

// The fake: everything that was made and not yet unmade, and which call is to fail.
std::mutex g_mutex;
std::map<std::string, int> g_calls;
std::multiset<void*> g_live;
std::string g_failing;
aclError g_code = ACL_ERROR_RT_FAILURE;
bool g_initialized = false;
thread_local aclrtContext t_context = nullptr;

aclError Enter(const char* call, bool needs_context = true) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    ++g_calls[call];
    if (g_failing == call) return g_code;
    if (!g_initialized) return ACL_ERROR_UNINITIALIZE;
    return needs_context && t_context == nullptr ? ACL_ERROR_INVALID_PARAM : ACL_SUCCESS;
}

aclError Make(const char* call, void** made, bool needs_context = true) {
    const aclError code = Enter(call, needs_context);
    if (code != ACL_SUCCESS) return code;
    *made = std::malloc(4096);
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_live.insert(*made);
    return code;
}

aclError Unmake(const char* call, void* made) {
    // Even a failing call gives the resource up, as the caller can do no more with it.
    const aclError code = Enter(call);
    const std::lock_guard<std::mutex> lock(g_mutex);
    const auto found = g_live.find(made);
    if (found == g_live.end()) return ACL_ERROR_INVALID_RESOURCE_HANDLE;
    g_live.erase(found);
    std::free(made);
    return code;
}

int Calls(const char* call) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    return g_calls[call];
}

}  // namespace

extern "C" {
aclError aclInit(const char*) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    ++g_calls["aclInit"];
    if (g_failing == "aclInit") return g_code;
    if (g_initialized) return ACL_ERROR_REPEAT_INITIALIZE;
    g_initialized = true;
    return ACL_SUCCESS;
}
aclError aclFinalize() {
    std::printf("aclFinalize\n");
    return ACL_SUCCESS;
}
const char* aclGetRecentErrMsg() { return "EL0004: out of memory"; }
aclError aclrtSetDevice(int32_t) { return Enter("aclrtSetDevice", false); }
aclError aclrtResetDevice(int32_t) { return Enter("aclrtResetDevice", false); }
aclError aclrtCreateContext(aclrtContext* context, int32_t) {
    return Make("aclrtCreateContext", context, false);
}
aclError aclrtDestroyContext(aclrtContext context) { return Unmake("aclrtDestroyContext", context); }
aclError aclrtSetCurrentContext(aclrtContext context) {
    const aclError code = Enter("aclrtSetCurrentContext", false);
    if (code == ACL_SUCCESS) t_context = context;
    return code;
}
aclError aclrtMalloc(void** memory, size_t, aclrtMemMallocPolicy) { return Make("aclrtMalloc", memory); }
aclError aclrtFree(void* memory) { return Unmake("aclrtFree", memory); }
aclError aclrtMallocHost(void** memory, size_t) { return Make("aclrtMallocHost", memory); }
aclError aclrtFreeHost(void* memory) { return Unmake("aclrtFreeHost", memory); }
aclError aclrtMemcpyAsync(void*, size_t most, const void*, size_t count, aclrtMemcpyKind, aclrtStream) {
    return count > most ? ACL_ERROR_INVALID_PARAM : Enter("aclrtMemcpyAsync");
}
aclError aclrtCreateStream(aclrtStream* stream) { return Make("aclrtCreateStream", stream); }
aclError aclrtDestroyStream(aclrtStream stream) { return Unmake("aclrtDestroyStream", stream); }
aclError aclrtSynchronizeStream(aclrtStream) { return Enter("aclrtSynchronizeStream"); }
aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return Enter("aclrtStreamWaitEvent"); }
aclError aclrtCreateEvent(aclrtEvent* event) { return Make("aclrtCreateEvent", event); }
aclError aclrtDestroyEvent(aclrtEvent event) { return Unmake("aclrtDestroyEvent", event); }
aclError aclrtRecordEvent(aclrtEvent, aclrtStream) { return Enter("aclrtRecordEvent"); }
aclError aclrtSynchronizeEvent(aclrtEvent) { return Enter("aclrtSynchronizeEvent"); }
aclError aclrtQueryEventStatus(aclrtEvent, aclrtEventRecordedStatus* status) {
    *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return Enter("aclrtQueryEventStatus");
}
}  // extern "C"

using namespace ascend_ops;

namespace {

int Plan(const AscendProblem*, AscendPlan* plan, AscendError*) {
    plan->core_count = 1;
    plan->workspace_bytes = 100;
    return ASCEND_OK;
}
int Run(const AscendProblem*, const AscendPlan*, const AscendTensor*, int32_t, int32_t, AscendError*) {
    return ASCEND_OK;
}
const AscendOperator kCopy = {"copy", 1, Plan, Run};

int LaunchCopy(const AscendProblem*, const AscendPlan*, const AscendTensor* tensors, aclrtStream) {
    CHECK(tensors[1].bytes >= 100);
    return Enter("copy");
}

// A whole life: device, session, a call, its result. Gives the first error.
Result Live() {
    OperatorRegistry registry;
    Result result = registry.Register(&kCopy);
    std::shared_ptr<AclrtDevice> device;
    if (result.ok()) result = AclrtDevice::Create(0, nullptr, {{"copy", LaunchCopy}}, &device);
    if (!result.ok()) return result;
    OperatorSession session(device, &registry);
    result = session.Initialise();
    if (!result.ok()) return result;
    std::shared_ptr<Buffer> host, operand;
    result = session.Allocate(MemoryType::kPinnedHost, 64, &host);
    if (result.ok()) result = session.Allocate(MemoryType::kDevice, 64, &operand);
    if (result.ok()) {
        result = device->Copy(operand->data(), host->data(), 64, CopyKind::kHostToDevice,
                              session.stream());
    }
    std::shared_ptr<Completion> work;
    if (result.ok()) result = session.ComputeAsync("copy", AscendProblem{}, {operand}, &work);
    if (result.ok()) result = work->Wait();
    if (!result.ok()) return result;
    return session.Finalise();
}

void EachFailingCallIsNamedAndNothingLeaks() {
    const char* const calls[] = {
        "aclrtSetDevice", "aclrtCreateContext", "aclrtSetCurrentContext", "aclrtCreateStream",
        "aclrtMalloc", "aclrtMallocHost", "aclrtMemcpyAsync", "aclrtCreateEvent",
        "aclrtRecordEvent", "aclrtSynchronizeEvent", "aclrtSynchronizeStream", "copy"};
    for (const char* call : calls) {
        g_failing = call;
        const Result result = Live();
        g_failing.clear();
        const std::string wanted = std::string(call) + " failed: ACL_ERROR_RT_FAILURE (500003): "
                                   "EL0004: out of memory. Look for this code in `opsctl doctor`";
        if (result.text() != wanted) std::fprintf(stderr, "%s: %s\n", call, result.text().c_str());
        CHECK(result.text() == wanted && result.code() == 500003);
        CHECK(g_live.empty());
    }
}

void EachThreadGetsTheContext() {
    std::shared_ptr<AclrtDevice> device;
    CHECK_OK(AclrtDevice::Create(0, nullptr, {}, &device));
    std::thread([&] {
        void* memory = nullptr;
        CHECK_OK(device->Allocate(MemoryType::kDevice, 0, &memory));
        CHECK_OK(device->Free(MemoryType::kDevice, memory));
    }).join();
    CHECK(!device->Launch(&kCopy, {}, {}, {}, nullptr).ok());
}

}  // namespace

int main(int argc, char**) {
    if (argc > 1) CHECK(aclInit(nullptr) == ACL_SUCCESS);  // as a framework does before us
    g_failing = "aclInit";
    if (argc == 1) CHECK(Live().text().find("aclInit failed: ACL_ERROR_RT_FAILURE") == 0);
    g_failing.clear();
    for (int i = 0; i < 3; ++i) CHECK_OK(Live());
    CHECK(g_live.empty());
    CHECK(Calls("aclInit") == 2);  // with the framework's, or with the failed one
    CHECK(std::string(AclErrorName(507011)) == "unknown code");
    EachFailingCallIsNamedAndNothingLeaks();
    EachThreadGetsTheContext();
    return 0;
}
