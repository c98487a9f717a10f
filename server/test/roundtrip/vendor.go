package roundtrip

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// vendor is examples/data-mover, outside of the server: the definition of its custom resource, and its controller.
type vendor struct {
	binary, logFile string
	args, env       []string
	cmd             *exec.Cmd // of the controller
}

// installVendor creates the definition. The controller will move the volumes in dir, slowly enough for the user to
// watch.
func installVendor(ctx context.Context, s *Site, dir string) (*vendor, error) {
	bucket := fmt.Sprintf("s3://%s?endpoint=%s&region=%s&use_path_style=true", s.Bucket, s.S3.Endpoint, s.S3.Region)
	v := &vendor{
		binary: filepath.Join(s.PluginDir, "data-mover"), logFile: filepath.Join(s.WorkDir, "controller.log"),
		args: []string{
			"controller", "--namespace", Namespace, "--volumes", dir, "--bucket", bucket,
			"--lease", "3s", "--pack-size", "1048576", "--bytes-per-second", "8000000",
		},
		env: append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "AWS_ACCESS_KEY_ID="+s.S3.AccessKey, "AWS_SECRET_ACCESS_KEY="+
			s.S3.SecretKey),
	}
	install := exec.CommandContext(ctx, v.binary, "install")
	install.Env = v.env
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("data-mover install: %w:\n%s", err, out)
	}
	return v, nil
}

// start starts a controller.
func (v *vendor) start(ctx context.Context) error {
	log, err := os.OpenFile(v.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	v.cmd = exec.CommandContext(context.WithoutCancel(ctx), v.binary, v.args...)
	v.cmd.Env, v.cmd.Stdout, v.cmd.Stderr = v.env, log, log
	if err := v.cmd.Start(); err != nil {
		return fmt.Errorf("start the controller of the data mover: %w", err)
	}
	return nil
}

// kill kills the controller.
func (v *vendor) kill() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}

func (v *vendor) log() string {
	log, err := os.ReadFile(v.logFile)
	if err != nil {
		return err.Error()
	}
	return string(log)
}
