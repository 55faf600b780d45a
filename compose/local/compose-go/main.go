// SPDX-License-Identifier: Apache-2.0

// Command compose-spec checks compose files with the loader that `docker compose` is built on and prints the
// resulting project as JSON. It needs no Docker engine. Variables come from the environment, as they do there.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func run(files []string) error {
	options, err := cli.NewProjectOptions(files, cli.WithOsEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	json, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	fmt.Println(string(json))
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
