"""A batch on two real servers, behind a load balancer and behind the gateway. See ``README.md`` one folder up."""
