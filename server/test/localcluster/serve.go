package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// description is the output of "serve" when the cluster is ready, and the record of "run".
type description struct {
	PID        int           `json:"pid"` // of the launcher
	Dir        string        `json:"dir"` // all files of the cluster; logs are in logs/
	Kubeconfig string        `json:"kubeconfig"`
	APIServer  string        `json:"apiserver"` // URL
	CAFile     string        `json:"caFile"`
	Token      string        `json:"token"` // of a member of system:masters
	S3         s3Description `json:"s3"`
	// Node is set if the cluster has one.
	Node *nodeDescription `json:"node,omitempty"`
	// NoNode is the reason why there is no cluster: the machine cannot run a node. All other fields are empty.
	NoNode string `json:"noNode,omitempty"`
}

type s3Description struct {
	Endpoint  string `json:"endpoint"` // URL; buckets are addressed path-style
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Region    string `json:"region"`
	Dir       string `json:"dir"`              // its directories are buckets
	CAFile    string `json:"caFile,omitempty"` // set if the endpoint is https
}

func (c *cluster) describe() description {
	d := description{
		PID:        os.Getpid(),
		Dir:        c.files.dir,
		Kubeconfig: c.files.kubeconfig,
		APIServer:  c.endpoints.apiserverURL(),
		CAFile:     c.files.ca,
		Token:      c.endpoints.token,
		S3: s3Description{
			Endpoint:  c.endpoints.s3URL(),
			AccessKey: c.endpoints.accessKey,
			SecretKey: c.endpoints.secretKey,
			Region:    s3Region,
			Dir:       c.files.s3Data,
		},
	}
	if c.endpoints.s3TLS {
		d.S3.CAFile = c.files.ca
	}
	d.Node = c.describeNode()
	return d
}

// environment returns the environment variables for a command that uses the
// cluster.
func (d description) environment() []string {
	env := []string{
		"KUBECONFIG=" + d.Kubeconfig,
		"LOCALCLUSTER_S3_ENDPOINT=" + d.S3.Endpoint,
		"LOCALCLUSTER_S3_ACCESS_KEY=" + d.S3.AccessKey,
		"LOCALCLUSTER_S3_SECRET_KEY=" + d.S3.SecretKey,
		"LOCALCLUSTER_S3_REGION=" + d.S3.Region,
	}
	if d.S3.CAFile != "" {
		env = append(env, "LOCALCLUSTER_S3_CA_FILE="+d.S3.CAFile)
	}
	return env
}

// serve runs a cluster until ctx or in ends.
func serve(ctx context.Context, programs map[string]string, o options, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands := readLines(in, cancel) // the parent may exit while the cluster starts
	c, err := startCluster(ctx, programs, o, os.Stderr)
	var no noNodeError
	if errors.As(err, &no) {
		return json.NewEncoder(out).Encode(description{NoNode: no.reason.Error()})
	}
	if err != nil {
		return err
	}
	return errors.Join(serveCluster(ctx, c, commands, out), c.stop())
}

func serveCluster(ctx context.Context, c *cluster, commands <-chan string, out io.Writer) error {
	if err := json.NewEncoder(out).Encode(c.describe()); err != nil {
		return fmt.Errorf("describing the cluster: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-commands:
			if err := json.NewEncoder(out).Encode(execute(ctx, c, line)); err != nil {
				return fmt.Errorf("replying to %q: %w", line, err)
			}
		}
	}
}

// reply is the response to one command.
type reply struct {
	OK    bool   `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
}

func execute(ctx context.Context, c *cluster, line string) reply {
	parts := strings.Fields(line)
	if len(parts) != 2 {
		return reply{Error: fmt.Sprintf("cannot parse the command %q: want a verb and a component, such as %q", line,
			"restart apiserver")}
	}
	if err := c.do(ctx, parts[0], parts[1]); err != nil {
		return reply{Error: err.Error()}
	}
	return reply{OK: true}
}

// readLines returns a channel with the lines of in. It calls ended at the end.
func readLines(in io.Reader, ended func()) <-chan string {
	lines := make(chan string)
	go func() {
		defer ended()
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// record atomically writes d to path.
func record(path string, d description) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("describing the cluster: %w", err)
	}
	tmp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".cluster-%d", d.PID))
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("recording the cluster: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("recording the cluster: %w", err)
	}
	return nil
}
