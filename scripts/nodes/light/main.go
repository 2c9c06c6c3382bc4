// Light is the tests' small service for containers: TensorFlow Serving's REST protocol on one port,
// health and metrics on another. It computes w·x + b with the weights of its model file. What is
// wrong with it stands in LIGHT_FAULT (JSON), so that a fault is part of a release like any change.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Fault tells what is wrong with this release; nothing by default.
type Fault struct {
	ExitAtStart       *int    `json:"exit_at_start"`
	HangAtStart       bool    `json:"hang_at_start"`
	HealthStatus      int     `json:"health_status"`
	DiesAfterS        float64 `json:"dies_after_s"`
	ValueError        float64 `json:"value_error"`
	WorkMs            float64 `json:"work_ms"`
	LeakMbPerS        float64 `json:"leak_mb_per_s"`
	IgnoresSigterm    bool    `json:"ignores_sigterm"`
	UserErrorsPercent uint64  `json:"user_errors_percent"`
}

type model struct {
	Weights []float64 `json:"w"`
	Bias    float64   `json:"b"`
}

type service struct {
	fault    Fault
	model    model
	release  string
	draining atomic.Bool
	requests atomic.Uint64
	errors   atomic.Uint64
}

const (
	userAgent = "opsctl-test-user"
	// The last connection that was on its way when SIGTERM came still gets an answer. LINGER_S
	// makes it longer, for pods that are told to end while balancers still send requests.
	linger   = "0.2"
	drainMax = 20 * time.Second
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "get" {
		get(os.Getenv("URL"))
		return
	}
	fault := Fault{HealthStatus: http.StatusOK}
	if err := json.Unmarshal([]byte(setting("LIGHT_FAULT", "{}")), &fault); err != nil {
		fail(2, "LIGHT_FAULT is no fault: %v", err)
	}
	if fault.ExitAtStart != nil {
		fail(*fault.ExitAtStart, "told to exit at start")
	}
	for fault.HangAtStart {
		time.Sleep(time.Second)
	}
	loaded, err := load(os.Getenv("MODEL_PATH"))
	if err != nil {
		fail(2, "cannot load the model: %v", err)
	}
	run(&service{fault: fault, model: loaded, release: os.Getenv("OPSCTL_RELEASE")})
}

// get asks a URL once, so that the image can test and check itself.
func get(url string) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		fail(1, "%v", err)
	}
	_ = answer.Body.Close()
	fmt.Println(answer.StatusCode, answer.Header.Get("X-Light-Release"))
	if answer.StatusCode != http.StatusOK {
		os.Exit(1)
	}
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func fail(code int, format string, values ...any) {
	fmt.Fprintf(os.Stderr, "light: "+format+"\n", values...)
	os.Exit(code)
}

// load reads weights.json, itself or in a folder; without a path the model is the sum of its inputs.
func load(path string) (model, error) {
	if path == "" {
		return model{Weights: []float64{1, 1, 1, 1}}, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "weights.json")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return model{}, err
	}
	var loaded model
	return loaded, json.Unmarshal(text, &loaded)
}

func run(s *service) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if s.fault.IgnoresSigterm {
		signal.Ignore(syscall.SIGTERM)
	}
	servers := []*http.Server{
		listen(setting("PORT", "8501"), s.serve),
		listen(setting("HEALTH_PORT", "8080"), s.health),
	}
	if s.fault.DiesAfterS > 0 {
		time.AfterFunc(seconds(s.fault.DiesAfterS), func() { fail(1, "told to die") })
	}
	if s.fault.LeakMbPerS > 0 {
		go leak(s.fault.LeakMbPerS)
	}
	fmt.Printf("light %s listens\n", s.release)
	<-ctx.Done()
	// From here on each answer asks its client to go elsewhere. (SetKeepAlivesEnabled would close
	// what is idle at once, also under a request that is on its way.)
	s.draining.Store(true)
	time.Sleep(lingers())
	end, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	for _, server := range servers {
		_ = server.Shutdown(end)
	}
}

func listen(port string, handle http.HandlerFunc) *http.Server {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		fail(3, "cannot listen: %v", err)
	}
	server := &http.Server{Handler: handle}
	go func() { _ = server.Serve(listener) }()
	return server
}

func leak(mbPerS float64) {
	var lost [][]byte
	for range time.Tick(100 * time.Millisecond) {
		block := make([]byte, int(mbPerS*100_000))
		for i := range block {
			block[i] = 1
		}
		lost = append(lost, block)
	}
}

func lingers() time.Duration {
	s, err := strconv.ParseFloat(setting("LINGER_S", linger), 64)
	if err != nil {
		fail(2, "LINGER_S is no number: %v", err)
	}
	return seconds(s)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *service) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Light-Release", s.release)
	w.Header().Set("X-Opsctl-Release", s.release)
	w.Header().Set("X-Light-Host", setting("HOSTNAME", ""))
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/models/light:predict":
		s.predict(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/v1/models/light":
		status := map[string]string{"error_code": "OK", "error_message": ""}
		s.answer(w, http.StatusOK, map[string]any{"model_version_status": []any{
			map[string]any{"version": "1", "state": "AVAILABLE", "status": status}}})
	default:
		s.answer(w, http.StatusNotFound, map[string]string{"error": "no route for " + r.URL.Path})
	}
}

func (s *service) predict(w http.ResponseWriter, r *http.Request) {
	count := s.requests.Add(1)
	var request struct {
		Instances [][]float64 `json:"instances"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&request); err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	predictions := [][]float64{}
	for _, instance := range request.Instances {
		if len(instance) != len(s.model.Weights) {
			s.refuse(w, http.StatusBadRequest, fmt.Sprintf(
				"%d values where the model has %d", len(instance), len(s.model.Weights)))
			return
		}
		predictions = append(predictions, []float64{s.score(instance)})
	}
	if r.UserAgent() == userAgent && count%100 < s.fault.UserErrorsPercent {
		s.refuse(w, http.StatusInternalServerError, "the fault of this release")
		return
	}
	time.Sleep(seconds(s.fault.WorkMs / 1000))
	s.answer(w, http.StatusOK, map[string]any{"predictions": predictions})
}

func (s *service) refuse(w http.ResponseWriter, status int, why string) {
	s.errors.Add(1)
	s.answer(w, status, map[string]string{"error": why})
}

func (s *service) score(instance []float64) float64 {
	total := s.model.Bias + s.fault.ValueError
	for i, x := range instance {
		total += s.model.Weights[i] * x
	}
	return total
}

func (s *service) health(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health", "/health/live":
		s.answer(w, s.fault.HealthStatus, map[string]string{"status": "alive"})
	case "/health/ready":
		status := s.fault.HealthStatus
		if s.draining.Load() {
			status = http.StatusServiceUnavailable
		}
		s.answer(w, status, map[string]bool{"ready": status == http.StatusOK})
	case "/metrics":
		fmt.Fprintf(w, "# TYPE inference_requests_total counter\ninference_requests_total %d\n"+
			"# TYPE inference_errors_total counter\ninference_errors_total %d\n",
			s.requests.Load(), s.errors.Load())
	default:
		s.answer(w, http.StatusNotFound, map[string]string{"error": "no route for " + r.URL.Path})
	}
}
