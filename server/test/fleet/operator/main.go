// Program operator is what serves the webhooks of restored objects: it admits objects whose references exist, converts
// custom resources between versions, and serves an aggregated API with one resource. Its arguments are an address, the
// files of its certificate and key, and a file to which it appends a line for each object that it is asked about:
// "VERB KIND NAME ANSWER". CLEAT_TEST_API and CLEAT_TEST_TOKEN are an API server and a token for it.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

type object = map[string]any

func main() {
	address, cert, key, answers := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	file, err := os.OpenFile(answers, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	o := &operator{file: file, exists: map[string]bool{}, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // of the test
		MaxIdleConnsPerHost: 100,
	}}}
	http.HandleFunc("/admit", o.admit)
	http.HandleFunc("/convert", o.convert)
	http.HandleFunc("/apis/", o.serve)
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0)} // the test connects without a handshake
	panic(server.ListenAndServeTLS(cert, key))
}

type operator struct {
	client *http.Client

	mu     sync.Mutex
	file   *os.File
	exists map[string]bool // paths of objects
}

func (o *operator) note(words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.file, words...)
}

func reply(w http.ResponseWriter, status int, what object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

func dig(of any, keys ...string) any {
	for _, key := range keys {
		m, _ := of.(object)
		of = m[key]
	}
	return of
}

func text(of any, keys ...string) string {
	s, _ := dig(of, keys...).(string)
	return s
}

// admit admits an object if what it names exists: annotation "needs" has the paths of objects, with commas.
func (o *operator) admit(w http.ResponseWriter, r *http.Request) {
	var review object
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := dig(review, "request", "object")
	missing := ""
	if needs := text(asked, "metadata", "annotations", "needs"); needs != "" {
		for _, one := range strings.Split(needs, ",") {
			if !o.has(one) {
				missing = one
			}
		}
	}
	answer := "admitted"
	if missing != "" {
		answer = "refused"
	}
	o.note("admit", text(asked, "kind"), text(asked, "metadata", "name"), answer, missing)
	reply(w, http.StatusOK, object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": object{
		"uid": dig(review, "request", "uid"), "allowed": missing == "",
		"status": object{"message": missing + " does not exist", "code": 403},
	}})
}

func (o *operator) has(path string) bool {
	o.mu.Lock()
	known := o.exists[path]
	o.mu.Unlock()
	if known {
		return true
	}
	request, err := http.NewRequest(http.MethodGet, os.Getenv("CLEAT_TEST_API")+path, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CLEAT_TEST_TOKEN"))
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	response, err := o.client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exists[path] = true
	return true
}

// convert gives objects the requested version.
func (o *operator) convert(w http.ResponseWriter, r *http.Request) {
	var review object
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	objects, _ := dig(review, "request", "objects").([]any)
	for _, one := range objects {
		if converted, ok := one.(object); ok {
			converted["apiVersion"] = dig(review, "request", "desiredAPIVersion")
		}
		o.note("convert", text(one, "kind"), text(one, "metadata", "name"), "converted")
	}
	reply(w, http.StatusOK, object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": object{
		"uid": dig(review, "request", "uid"), "convertedObjects": objects, "result": object{"status": "Success"},
	}})
}

// serve is an aggregated API that accepts all objects and keeps their paths: /apis/GROUP/VERSION has "gauges".
func (o *operator) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost:
		var made object
		if err := json.NewDecoder(r.Body).Decode(&made); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o.mu.Lock()
		o.exists[path.Join(r.URL.Path, text(made, "metadata", "name"))] = true
		o.mu.Unlock()
		o.note("create", text(made, "kind"), text(made, "metadata", "name"), "created")
		reply(w, http.StatusCreated, made)
	case len(parts) == 3:
		reply(w, http.StatusOK, object{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": path.Join(parts[1:]...),
			"resources": []object{{"name": "gauges", "singularName": "gauge", "kind": "Gauge", "namespaced": true,
				"verbs": []string{"create", "delete", "get", "list"}}}})
	default:
		o.mu.Lock()
		known := o.exists[r.URL.Path]
		o.mu.Unlock()
		if known {
			reply(w, http.StatusOK, object{"apiVersion": path.Join(parts[1:3]...), "kind": "Gauge",
				"metadata": object{"name": parts[len(parts)-1]}})
			return
		}
		reply(w, http.StatusNotFound, object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
			"code": 404})
	}
}
