import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** One node with the modules of HOME/modules: java -cp 'lib/*:classes' ElasticsearchNode HOME PORT [setting=value …] */
public class ElasticsearchNode {
    public static void main(String[] words) throws Exception {
        Path config = Files.createDirectories(SearchNode.home(words).resolve("config"));
        LogConfigurator.configureESLogging();
        Settings.Builder settings = Settings.builder().put("http.type", "netty4").put("transport.type", "netty4");
        SearchNode.settings(words).forEach((name, value) -> settings.put(name, value));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), config, () -> "node");
        PluginsLoader plugins = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(Files.createDirectories(SearchNode.home(words).resolve("modules"))),
            PluginsLoader.loadPluginsBundles(Files.createDirectories(SearchNode.home(words).resolve("plugins"))), Map.of(), false);
        Node node = new Node(environment, plugins);
        SearchNode.run(node, node::start);
    }
}
