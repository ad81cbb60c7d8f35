"""A beanstalkd server over a queue table: any language puts and reserves jobs."""
