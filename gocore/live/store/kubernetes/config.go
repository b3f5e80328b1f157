package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"dynosim/gocore/live/store/kubernetes/apiserver"
)

// Config says which pod and container this process is, and where the API server is.
type Config struct {
	Namespace, Pod, UID string
	Container           string   // "" if readiness is that of the pod
	Kubeconfig          []string // files; without any of them, what the cluster gives to its pods
}

// PodInfo is the folder where the downward API of Kubernetes may put files about the pod.
const PodInfo = "/etc/podinfo"

// FromEnvironment reads the identity from files in the folder podInfo, or else from environment variables, which getenv
// looks up. warnings are for the log.
func FromEnvironment(getenv func(string) string, podInfo string) (c Config, warnings []string, err error) {
	identity := func(name string) string {
		content, err := os.ReadFile(filepath.Join(podInfo, strings.ToLower(name)))
		if text := strings.TrimSpace(string(content)); err == nil && text != "" {
			return text
		}
		return getenv(name)
	}
	c = Config{Namespace: identity("POD_NAMESPACE"), Pod: identity("POD_NAME"), UID: identity("POD_UID")}
	if c.Namespace == "" {
		c.Namespace = "default"
		warnings = append(warnings, `POD_NAMESPACE is not set: taking "default"`)
	}
	for _, need := range [][2]string{{"POD_NAME", c.Pod}, {"POD_UID", c.UID}} {
		if need[1] == "" {
			return Config{}, nil, fmt.Errorf("%s: got nothing, want it from the downward API (fieldRef metadata.%s)",
				need[0], strings.ToLower(strings.TrimPrefix(need[0], "POD_")))
		}
	}
	switch mode := getenv("DYN_KUBE_DISCOVERY_MODE"); mode {
	case "", "pod":
	case "container":
		if c.Container = getenv("CONTAINER_NAME"); c.Container == "" {
			return Config{}, nil, fmt.Errorf("CONTAINER_NAME: got nothing, want the name of this container, because " +
				"DYN_KUBE_DISCOVERY_MODE is container")
		}
	default:
		return Config{}, nil, fmt.Errorf("DYN_KUBE_DISCOVERY_MODE: got %q, want pod or container", mode)
	}
	if c.Kubeconfig = filepath.SplitList(getenv("KUBECONFIG")); len(c.Kubeconfig) == 0 && getenv("HOME") != "" {
		c.Kubeconfig = []string{filepath.Join(getenv("HOME"), ".kube", "config")}
	}
	return c, warnings, nil
}

// mainContainer is the container that stands for its pod.
const mainContainer = "main"

// name returns that of the resource.
func (c *Config) name() string {
	if c.Container == "" || c.Container == mainContainer {
		return c.Pod
	}
	return c.Pod + "-" + c.Container
}

// connect returns a client of the API server.
func (c *Config) connect() (*apiserver.Client, error) {
	client, err := apiserver.Open(c.Kubeconfig, requestTimeout)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: no API server: %w; run in a cluster, or set KUBECONFIG", err)
	}
	return client, nil
}
