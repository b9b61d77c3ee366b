// Answers the parent's requests in the place of Python, which a user's code can change once it is imported.
//
// Input: pipes and the Python side, before any of that code. Output: replies, signed with the parent's key.
// The Python side only provides a call to hold; calls are made, timed and checked here.
#include <pybind11/pybind11.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/calls/held_call.h"
#include "bindings/calls/request.h"
#include "bindings/calls/signature.h"
#include "bindings/module.h"

namespace py = pybind11;

namespace profkit {
namespace {

std::string text_of(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

template <class T>
std::string list_of(const std::vector<T>& numbers) {
  std::string text;
  for (const T& number : numbers) {
    if (!text.empty()) text += ", ";
    if constexpr (std::is_floating_point_v<T>) {
      text += text_of(number);
    } else {
      text += std::to_string(number);
    }
  }
  return "[" + text + "]";
}

int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

class GarbageOff {
 public:
  GarbageOff() : was_on_(PyGC_Disable() != 0) {}
  ~GarbageOff() {
    if (was_on_) PyGC_Enable();
  }
  GarbageOff(const GarbageOff&) = delete;
  GarbageOff& operator=(const GarbageOff&) = delete;

 private:
  bool was_on_;
};

// What the Python side gives after `prepare`.
struct PreparedCall {
  std::unique_ptr<HeldCall> call;
  int64_t held_bytes = 0, output_bytes = 0;
  bool is_fresh = true;
};

class CallServer {
 public:
  CallServer(int read_fd, int write_fd, const py::object& side)
      : read_fd_(read_fd),
        write_fd_(write_fd),
        answer_(side.attr("answer")),
        describe_(side.attr("describe")),
        refuse_(side.attr("refuse")),
        freeze_(py::module_::import("gc").attr("freeze")),
        process_(getpid()) {}

  // Until the parent closes the pipe.
  void run() {
    std::string line;
    while (take_line(line)) {
      RequestLine request(std::move(line));
      begin_ns_ = now_ns();
      is_native_ = false;
      take_key(request);
      std::string reply = guarded(request);
      // A forked child that came back out of the kernel: it is not the worker.
      if (getpid() != process_) _exit(1);
      send(request, std::move(reply));
    }
    // Frameworks' own exit handlers may hang or crash, and nothing is left to save.
    _exit(0);
  }

 private:
  void take_key(RequestLine& request) {
    const std::string digits = request.take_word("secret");
    if (digits.size() != 32) return;
    key_ = {std::strtoull(digits.substr(0, 16).c_str(), nullptr, 16),
            std::strtoull(digits.substr(16).c_str(), nullptr, 16)};
  }

  bool take_line(std::string& line) {
    size_t end;
    while ((end = received_.find('\n')) == std::string::npos) {
      char piece[1 << 14];
      ssize_t taken;
      {
        const py::gil_scoped_release release;
        do {
          taken = read(read_fd_, piece, sizeof piece);
        } while (taken < 0 && errno == EINTR);
      }
      if (taken <= 0) return false;
      received_.append(piece, static_cast<size_t>(taken));
      std::fill(piece, piece + sizeof piece, '\0');
    }
    line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return true;
  }

  // `reply`: the inside of an object, without braces.
  void send(const RequestLine& request, std::string reply) {
    std::string text = "{\"number\": " + std::to_string(request.number("number")) +
                       (reply.empty() ? "" : ", ") + reply +
                       ", \"spent_ns\": " + std::to_string(now_ns() - begin_ns_) +
                       // Last, so that nothing that Python says can take its place.
                       ", \"is_native\": " + (is_native_ ? "true" : "false") + "}";
    if (key_) {
      char digits[20];
      std::snprintf(digits, sizeof digits, " %016llx",
                    static_cast<unsigned long long>(signature(*key_, text.data(), text.size())));
      text += digits;
    }
    text += '\n';
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = write(write_fd_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) _exit(1);
      done += static_cast<size_t>(written);
    }
  }

  std::string guarded(const RequestLine& request) {
    try {
      try {
        return answered(request);
      } catch (const RefusedResult& refused) {
        refuse_(refused.result);
        throw CheckFailure{"it returned something that is not an output"};
      }
    } catch (py::error_already_set& error) {
      return described(error);
    } catch (const CheckFailure& failure) {
      return std::string("\"error\": {\"status\": \"") + failure.status + "\", \"reason\": \"" +
             failure.reason + "\"}";
    } catch (const std::bad_alloc&) {
      return "\"error\": {\"status\": \"oom\", \"reason\": \"there is no memory for checking it\"}";
    }
  }

  std::string described(py::error_already_set& error) {
    try {
      const py::object value = error.value();
      if (error.trace()) PyException_SetTraceback(value.ptr(), error.trace().ptr());
      return inside(describe_(value));
    } catch (py::error_already_set&) {
      return "\"error\": {\"status\": \"crashed\", \"reason\": \"an error that cannot be described\"}";
    }
  }

  // What is between the braces of an object in JSON.
  static std::string inside(const py::object& bytes) {
    char* text = nullptr;
    Py_ssize_t length = 0;
    if (PyBytes_AsStringAndSize(bytes.ptr(), &text, &length) != 0) throw py::error_already_set();
    return length < 2 ? "" : std::string(text + 1, static_cast<size_t>(length) - 2);
  }

  std::string answered(const RequestLine& request) {
    const std::string wanted = request.word("do");
    if (wanted == "prepare") return prepare(request);
    if (prepared_.call) {
      is_native_ = true;
      if (wanted == "warm_up") return warm_up(request.number("least_calls"), request.number("least_ns"));
      if (wanted == "sample") return sample(request);
      if (prepared_.call->materialises() && wanted == "recheck") return recheck(request);
      if (wanted == "audit") return audit(request);
      is_native_ = false;
    }
    return inside(py::tuple(answer_(py::bytes(request.line())))[0]);
  }

  static uint64_t seed_of(const RequestLine& request) {
    return static_cast<uint64_t>(request.number("seed"));
  }

  std::string prepare(const RequestLine& request) {
    prepared_ = PreparedCall();
    const py::tuple answer = answer_(py::bytes(request.line()));
    std::string reply = inside(answer[0]);
    if (py::object(answer[1]).is_none()) return reply;
    take(py::tuple(answer[1]));
    if (!prepared_.call->materialises()) return reply;
    is_native_ = true;
    const int64_t begin = now_ns();
    Reference first = prepared_.call->once();
    const int64_t first_call_ns = now_ns() - begin;
    if (!prepared_.call->is_output(first)) throw RefusedResult{first};
    // Only a second result beside the first shows whether memory is reused. What adds to its own output is
    // found out here, too: the first result is kept after the second call.
    prepared_.is_fresh = !prepared_.call->is_reused(first);
    if (getpid() != process_) _exit(1);
    const Snapshot snapshot = prepared_.call->keep(first, seed_of(request), request.text("result_hex"));
    first = py::object();
    // A framework's import leaves a million Python objects; collecting them again and again would take longer
    // than the samples and sweep the caches.
    PyGC_Collect();
    freeze_();
    reply += std::string(reply.empty() ? "" : ", ") + "\"first_call_ns\": " + std::to_string(first_call_ns);
    reply += std::string(", \"output\": \"") + (prepared_.is_fresh ? "fresh" : "reused") + "\"";
    reply += ", \"result_sum\": " + std::to_string(snapshot.sum);
    reply += ", \"sums\": " + list_of(prepared_.call->input_sums(seed_of(request)));
    return reply;
  }

  // call, whether its results are checked here, inputs, the output's shape, type number and bytes of an
  // element, workspace, whether the output is fresh.
  void take(const py::tuple& held) {
    OutputForm form;
    for (const py::handle extent : py::tuple(held[3])) form.shape.push_back(extent.cast<int64_t>());
    form.type_number = held[4].cast<int>();
    form.item_bytes = held[5].cast<size_t>();
    std::vector<Reference> inputs;
    for (const py::handle input : py::tuple(held[2])) {
      inputs.push_back(py::reinterpret_borrow<py::object>(input));
    }
    prepared_.output_bytes = static_cast<int64_t>(form.item_bytes);
    for (const int64_t extent : form.shape) prepared_.output_bytes *= extent;
    prepared_.held_bytes = held[6].cast<int64_t>();
    prepared_.is_fresh = held[7].cast<bool>();
    prepared_.call =
        std::make_unique<HeldCall>(bound_, held[0], held[1].cast<bool>(), std::move(inputs), std::move(form));
  }

  // One call's memory, then calls until both bounds are met; a slow call counts as its own warm-up. Memory
  // comes first because warm-up then restores what measuring it gave back to the system.
  std::string warm_up(int64_t least_calls, int64_t least_ns) {
    const int64_t begin = now_ns();
    const std::string peak = peak_bytes();
    std::vector<int64_t> samples = {now_ns() - begin};
    if (samples[0] < 10 * least_ns) samples.clear();
    int64_t spent = samples.empty() ? 0 : samples[0];
    while (samples.empty() ||
           spent < (static_cast<int64_t>(samples.size()) < least_calls ? 10 * least_ns : least_ns)) {
      samples.push_back(prepared_.call->timed(1));
      spent += samples.back();
    }
    return "\"samples_ns\": " + list_of(samples) + ", \"peak_bytes\": " + peak;
  }

  // By how many bytes resident memory rises at most during one call, less a fresh output, plus workspace.
  std::string peak_bytes() {
    PyGC_Collect();
    const bool is_reset = reset_high_water();
    const int64_t before = status_bytes("VmRSS");
    Reference result = prepared_.call->once();
    const int64_t peak = status_bytes("VmHWM");
    result = py::object();
    if (!is_reset || before < 0 || peak < 0) return "null";
    const int64_t output = prepared_.is_fresh ? prepared_.output_bytes : 0;
    return std::to_string(std::max<int64_t>(0, peak - before - output) + prepared_.held_bytes);
  }

  std::string sample(const RequestLine& request) {
    const GarbageOff off;
    const HeldCall& call = *prepared_.call;
    const int64_t count = request.number("count"), calls = request.number("calls");
    const int64_t warm_calls = request.number("warm_calls"), checked = request.number("checked_sample", -1);
    const int64_t poked = request.number("poked_sample", -1);
    const auto flush_bytes = static_cast<size_t>(request.number("flush_bytes"));
    std::string about;
    std::vector<double> samples;
    int64_t faults = 0;
    call.timed(warm_calls);
    for (int64_t i = 0; i < count; ++i) {
      if (i == checked) {
        if (flush_bytes > 0) flush_caches(flush_bytes);  // as before a sample, or a call would know it
        about += check(request);
        call.timed(std::max<int64_t>(0, calls - 1 - request.number("before")));
        call.timed(warm_calls);
      }
      if (i == poked) {
        if (flush_bytes > 0) flush_caches(flush_bytes);
        const SampleTimes times = call.poked(calls, poke_of(request));
        about += ", \"poked_ns\": " + list_of<int64_t>({times.wall_ns, times.processor_ns});
        call.timed(warm_calls);
      }
      if (flush_bytes > 0) flush_caches(flush_bytes);
      const int64_t faults_before = minor_faults();
      const int64_t processor_before = i == poked ? process_ns() : 0;
      const int64_t spent = call.timed(calls);
      if (i == poked) {
        about += ", \"plain_ns\": " + list_of<int64_t>({spent, process_ns() - processor_before});
      }
      samples.push_back(static_cast<double>(spent) / static_cast<double>(calls));
      faults += minor_faults() - faults_before;
    }
    return "\"samples_ns\": " + list_of(samples) +
           ", \"page_faults\": " + text_of(static_cast<double>(faults) / static_cast<double>(count * calls)) +
           about;
  }

  static PokeRequest poke_of(const RequestLine& request) {
    PokeRequest poke;
    poke.seed = static_cast<uint64_t>(request.number("poke_seed"));
    for (const uint64_t input : request.numbers("inputs")) poke.inputs.push_back(static_cast<size_t>(input));
    return poke;
  }

  static CheckRequest check_of(const RequestLine& request) {
    CheckRequest check;
    check.before = std::max<int64_t>(0, request.number("before", 1));
    check.spoils = request.number("spoils") != 0;
    check.seed = seed_of(request);
    check.path = request.text("result_hex");
    const std::vector<uint64_t> pokes = request.numbers("pokes");
    for (size_t i = 0; i + 2 < pokes.size(); i += 3) {
      check.pokes.push_back({static_cast<size_t>(pokes[i]), static_cast<size_t>(pokes[i + 1]), pokes[i + 2]});
    }
    return check;
  }

  std::string check(const RequestLine& request) {
    const Snapshot snapshot = prepared_.call->check(check_of(request));
    return ", \"result_sum\": " + std::to_string(snapshot.sum) +
           ", \"is_spoilt\": " + (snapshot.is_spoilt ? "true" : "false");
  }

  std::string recheck(const RequestLine& request) {
    return "\"sums\": " + list_of(prepared_.call->input_sums(seed_of(request))) + check(request);
  }

  std::string audit(const RequestLine& request) {
    const GarbageOff off;
    AuditRequest wanted;
    wanted.before = request.number("before", 1);
    wanted.count = request.number("count", 1);
    wanted.is_fresh = request.number("is_fresh") != 0;
    wanted.change = request.number("is_nudged") != 0 ? Change::kNudged : Change::kNew;
    wanted.inputs = poke_of(request).inputs;
    wanted.check = check_of(request);
    if (!prepared_.call->materialises()) wanted.check.path.clear();
    Snapshot snapshot;
    const CallTimes times = prepared_.call->audit(wanted, snapshot);
    return "\"call_ns\": " + list_of(times.wall_ns) + ", \"processor_ns\": " + list_of(times.processor_ns) +
           ", \"lead_ns\": " + list_of(times.lead_ns) +
           ", \"lead_processor_ns\": " + list_of(times.lead_processor_ns) +
           ", \"result_sum\": " + std::to_string(snapshot.sum);
  }

  // Pushes everything out of the caches by writing a buffer larger than the last level.
  void flush_caches(size_t bytes) {
    flushed_.resize(bytes);
    for (unsigned char& byte : flushed_) ++byte;
  }

  int read_fd_, write_fd_;
  py::object answer_, describe_, refuse_, freeze_;
  pid_t process_;
  Bound bound_;
  PreparedCall prepared_;
  std::optional<SignatureKey> key_;
  std::string received_;
  std::vector<unsigned char> flushed_;
  int64_t begin_ns_ = 0;
  bool is_native_ = false;
};

}  // namespace

void register_calls(py::module_& module) {
  module.def(
      "serve_calls",
      [](int read_fd, int write_fd, const py::object& side) { CallServer(read_fd, write_fd, side).run(); },
      py::arg("read_fd"), py::arg("write_fd"), py::arg("side"));
}

}  // namespace profkit
