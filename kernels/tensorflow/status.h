// Statuses by one name in each supported TensorFlow: absl's from 2.13 on, TensorFlow's own before.
#pragma once

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/status.h"

#if __has_include("absl/status/status.h") && __has_include("tensorflow/core/public/release_version.h")
#define ASCEND_ABSL_STATUS 1
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#else
#define ASCEND_ABSL_STATUS 0
#endif

namespace ascend_ops {

#if ASCEND_ABSL_STATUS
using Status = absl::Status;
inline Status OkStatus() { return absl::OkStatus(); }
template <typename... Parts>
Status InvalidArgument(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
}
template <typename... Parts>
Status Internal(const Parts&... parts) {
    return absl::InternalError(absl::StrCat(parts...));
}
#else
using Status = tensorflow::Status;
inline Status OkStatus() { return Status::OK(); }
template <typename... Parts>
Status InvalidArgument(const Parts&... parts) {
    return tensorflow::errors::InvalidArgument(parts...);
}
template <typename... Parts>
Status Internal(const Parts&... parts) {
    return tensorflow::errors::Internal(parts...);
}
#endif

}  // namespace ascend_ops
