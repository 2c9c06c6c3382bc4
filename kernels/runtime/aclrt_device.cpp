#include "aclrt_device.h"

#include <cstdlib>
#include <mutex>

namespace ascend_ops {
namespace {

// Turns a return code into a result that names the call and the code.
Result Check(aclError code, const char* call) {
    if (code == ACL_SUCCESS) return {};
    std::string text = std::string(call) + " failed: " + AclErrorName(code) + " (" +
                       std::to_string(code) + ")";
    const char* detail = aclGetRecentErrMsg();
    if (detail != nullptr && *detail != '\0') text += ": " + std::string(detail);
    return {code, text + ". Look for this code in `opsctl doctor`"};
}

void FinalizeAtExit() { static_cast<void>(aclFinalize()); }

// Initialises AscendCL once a process. Only whoever initialised it finalises it, and at exit:
// frameworks in the same process may still use it, and it cannot be initialised again.
Result InitializeOnce(const char* config_path) {
    static std::mutex mutex;
    static bool initialized = false;
    const std::lock_guard<std::mutex> lock(mutex);
    if (initialized) return {};
    const aclError code = aclInit(config_path);
    if (code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE) return Check(code, "aclInit");
    if (code == ACL_SUCCESS) std::atexit(FinalizeAtExit);
    initialized = true;
    return {};
}

}  // namespace

const char* AclErrorName(aclError code) {
    struct Name {
        aclError code;
        const char* name;
    };
    static const Name names[] = {
        {ACL_ERROR_INVALID_PARAM, "ACL_ERROR_INVALID_PARAM"},
        {ACL_ERROR_UNINITIALIZE, "ACL_ERROR_UNINITIALIZE"},
        {ACL_ERROR_REPEAT_INITIALIZE, "ACL_ERROR_REPEAT_INITIALIZE"},
        {ACL_ERROR_BAD_ALLOC, "ACL_ERROR_BAD_ALLOC"},
        {ACL_ERROR_API_NOT_SUPPORT, "ACL_ERROR_API_NOT_SUPPORT"},
        {ACL_ERROR_INVALID_DEVICE, "ACL_ERROR_INVALID_DEVICE"},
        {ACL_ERROR_RESOURCE_NOT_MATCH, "ACL_ERROR_RESOURCE_NOT_MATCH"},
        {ACL_ERROR_INVALID_RESOURCE_HANDLE, "ACL_ERROR_INVALID_RESOURCE_HANDLE"},
        {ACL_ERROR_STORAGE_OVER_LIMIT, "ACL_ERROR_STORAGE_OVER_LIMIT"},
        {ACL_ERROR_INTERNAL_ERROR, "ACL_ERROR_INTERNAL_ERROR"},
        {ACL_ERROR_FAILURE, "ACL_ERROR_FAILURE"},
        {ACL_ERROR_RT_FAILURE, "ACL_ERROR_RT_FAILURE"},
        {ACL_ERROR_DRV_FAILURE, "ACL_ERROR_DRV_FAILURE"},
    };
    for (const Name& entry : names) {
        if (entry.code == code) return entry.name;
    }
    return "unknown code";
}

Result AclrtDevice::Create(int32_t device_id, const char* config_path,
                           std::map<std::string, Launcher> launchers,
                           std::shared_ptr<AclrtDevice>* device) {
    Result result = InitializeOnce(config_path);
    if (!result.ok()) return result;
    // From here the destructor undoes what was done, on each way out.
    std::shared_ptr<AclrtDevice> made(new AclrtDevice(device_id, std::move(launchers)));
    result = Check(aclrtSetDevice(device_id), "aclrtSetDevice");
    if (!result.ok()) return result;
    made->device_set_ = true;
    result = Check(aclrtCreateContext(&made->context_, device_id), "aclrtCreateContext");
    if (!result.ok()) return result;
    *device = std::move(made);
    return {};
}

AclrtDevice::~AclrtDevice() {
    // Errors here have no caller; the process goes on without this device.
    if (context_ != nullptr) static_cast<void>(aclrtDestroyContext(context_));
    if (device_set_) static_cast<void>(aclrtResetDevice(device_id_));
}

Result AclrtDevice::MakeCurrent() const {
    return Check(aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
}

// Makes the context current, and then calls; the call's name is in the error.
#define ASCEND_CALL(function, ...)                                   \
    do {                                                             \
        Result current = MakeCurrent();                              \
        return current.ok() ? Check(function(__VA_ARGS__), #function) : current; \
    } while (false)

Result AclrtDevice::Allocate(MemoryType type, uint64_t bytes, void** memory) {
    // aclrtMalloc refuses 0 bytes.
    const size_t size = bytes == 0 ? 1 : bytes;
    if (type == MemoryType::kPinnedHost) ASCEND_CALL(aclrtMallocHost, memory, size);
    ASCEND_CALL(aclrtMalloc, memory, size, ACL_MEM_MALLOC_HUGE_FIRST);
}

Result AclrtDevice::Free(MemoryType type, void* memory) {
    if (type == MemoryType::kPinnedHost) ASCEND_CALL(aclrtFreeHost, memory);
    ASCEND_CALL(aclrtFree, memory);
}

Result AclrtDevice::CreateStream(StreamHandle* stream) { ASCEND_CALL(aclrtCreateStream, stream); }

Result AclrtDevice::DestroyStream(StreamHandle stream) {
    const Result drained = Synchronize(stream);
    Result current = MakeCurrent();
    if (!current.ok()) return current;
    const Result destroyed = Check(aclrtDestroyStream(stream), "aclrtDestroyStream");
    return drained.ok() ? destroyed : drained;
}

Result AclrtDevice::Synchronize(StreamHandle stream) {
    ASCEND_CALL(aclrtSynchronizeStream, stream);
}

Result AclrtDevice::CreateEvent(EventHandle* event) { ASCEND_CALL(aclrtCreateEvent, event); }

Result AclrtDevice::DestroyEvent(EventHandle event) { ASCEND_CALL(aclrtDestroyEvent, event); }

Result AclrtDevice::Record(EventHandle event, StreamHandle stream) {
    ASCEND_CALL(aclrtRecordEvent, event, stream);
}

Result AclrtDevice::WaitEvent(StreamHandle stream, EventHandle event) {
    ASCEND_CALL(aclrtStreamWaitEvent, stream, event);
}

Result AclrtDevice::SynchronizeEvent(EventHandle event) {
    ASCEND_CALL(aclrtSynchronizeEvent, event);
}

Result AclrtDevice::QueryEvent(EventHandle event, bool* done) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    Result result = MakeCurrent();
    if (result.ok()) result = Check(aclrtQueryEventStatus(event, &status), "aclrtQueryEventStatus");
    if (result.ok()) *done = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return result;
}

Result AclrtDevice::Copy(void* destination, const void* source, uint64_t bytes, CopyKind kind,
                         StreamHandle stream) {
    const aclrtMemcpyKind direction = kind == CopyKind::kHostToDevice   ? ACL_MEMCPY_HOST_TO_DEVICE
                                      : kind == CopyKind::kDeviceToHost ? ACL_MEMCPY_DEVICE_TO_HOST
                                                                        : ACL_MEMCPY_DEVICE_TO_DEVICE;
    ASCEND_CALL(aclrtMemcpyAsync, destination, bytes, source, bytes, direction, stream);
}

Result AclrtDevice::Launch(const AscendOperator* op, const AscendProblem& problem,
                           const AscendPlan& plan, std::vector<AscendTensor> tensors,
                           StreamHandle stream) {
    const auto launcher = launchers_.find(op->name);
    if (launcher == launchers_.end()) {
        return {ASCEND_INVALID, std::string(op->name) +
                                    ": no kernel for the NPU in this build; build with CANN"};
    }
    if (plan.core_count == 0) return {};
    Result current = MakeCurrent();
    if (!current.ok()) return current;
    return Check(launcher->second(&problem, &plan, tensors.data(), stream), op->name);
}

}  // namespace ascend_ops
